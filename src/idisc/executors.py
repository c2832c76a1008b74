"""Executor: where work runs. A picklable function is applied to many items, in any order.

`LocalExecutor` uses processes of this machine. `cluster.executor.RayExecutor` uses the machines of
a Ray cluster. The function is sent to each worker once, so that it may keep what is expensive, such
as a network; items and results travel one by one. An exception of the function is a value, and an
item whose worker dies is given to another one.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from idisc.errors import IdiscError

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")
Value = TypeVar("Value")
MAX_DEATHS = 3  # workers that may die with the same item


class WorkerDied(IdiscError):
    """Several workers died while they worked on the same item."""


@dataclass(frozen=True)
class Outcome(Generic[Item, Value]):
    """What became of one item: a value, or the exception of the function."""

    index: int  # of the item, from 0
    item: Item
    value: Value | None = None
    error: Exception | None = None

    def result(self) -> Value:
        """Return the value, or raise the exception."""
        if self.error is not None:
            raise self.error
        return cast(Value, self.value)


class Executor(Protocol):
    """A place where work runs."""

    def map(
        self, function: Callable[[Item], Value], items: Iterable[Item]
    ) -> Generator[Outcome[Item, Value], None, None]:
        """Yield the outcome of each item once, as soon as it is known.

        Closing the generator, or an exception in it, ends all workers; those of a cluster end when
        this process disconnects.
        """
        ...


def attempt(function: Callable[[Item], Value], index: int, item: Item) -> Outcome[Item, Value]:
    """Call the function in this process; an exception becomes part of the outcome."""
    try:
        return Outcome(index, item, function(item))
    except Exception as error:
        return Outcome(index, item, error=error)


def in_order(outcomes: Iterable[Outcome[Item, Value]]) -> Iterator[Outcome[Item, Value]]:
    """Yield outcomes by their index; early ones are kept until it is their turn."""
    early: dict[int, Outcome[Item, Value]] = {}
    turn = 0
    for outcome in outcomes:
        early[outcome.index] = outcome
        while turn in early:
            yield early.pop(turn)
            turn += 1


def died(index: int, item: Item) -> Outcome[Item, Any]:
    """Return the outcome of an item that is given up."""
    reason = f"{MAX_DEATHS} workers died while they worked on it"
    remedy = "look for a lack of memory in the log of the system"
    return Outcome(index, item, error=WorkerDied(getattr(item, "name", item), reason, remedy))


@dataclass(frozen=True)
class LocalExecutor:
    """Processes of this machine; one worker is this process itself."""

    workers: int = 1

    def map(
        self, function: Callable[[Item], Value], items: Iterable[Item]
    ) -> Generator[Outcome[Item, Value], None, None]:
        """Yield the outcome of each item; see `Executor.map`."""
        if self.workers <= 1:  # one item at a time, also of items that come one by one
            yield from map(partial(attempt, function), count(), items)
            return
        items = list(items)
        waiting, suspects = deque(range(len(items))), deque[int]()
        deaths: Counter[int] = Counter()
        while waiting or suspects:
            lost = yield from self._run_pool(function, items, waiting, suspects)
            deaths.update(lost)
            for index in lost:
                if deaths[index] < MAX_DEATHS:
                    suspects.append(index)
                else:
                    yield died(index, items[index])

    def _run_pool(
        self,
        function: Callable[[Item], Value],
        items: Sequence[Item],
        waiting: deque[int],
        suspects: deque[int],
    ) -> Generator[Outcome[Item, Value], None, list[int]]:
        """Work until all is done or a worker dies; return the items that were with the workers.

        One dead process ends a pool of the standard library, and it is not known which item was
        the cause. Suspects are therefore tried alone.
        """
        import multiprocessing  # slow to import, and a single photo needs none of it
        from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
        from concurrent.futures.process import BrokenProcessPool

        unrelated = set(multiprocessing.active_children())
        # Spawned, not forked: a fork copies the locks of threads that it does not have.
        context = multiprocessing.get_context("spawn")
        workers = min(self.workers, len(waiting) + len(suspects))
        jobs: dict[Future[Value], int] = {}
        with ProcessPoolExecutor(
            workers, mp_context=context, initializer=_start_worker, initargs=(function,)
        ) as pool:
            try:
                while waiting or suspects or jobs:
                    queue, limit = (suspects, 1) if suspects else (waiting, 2 * workers)
                    while queue and len(jobs) < limit:
                        index = queue.popleft()
                        try:
                            jobs[pool.submit(_call, items[index])] = index
                        except BrokenProcessPool:
                            return [*jobs.values(), index]
                    for job in wait(jobs, return_when=FIRST_COMPLETED).done:
                        error = job.exception()
                        if isinstance(error, BrokenProcessPool):
                            return list(jobs.values())
                        index = jobs.pop(job)
                        if isinstance(error, Exception):
                            yield Outcome(index, items[index], error=error)
                        else:
                            yield Outcome(index, items[index], job.result())
                return []
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in set(multiprocessing.active_children()) - unrelated:
                    worker.terminate()
                raise


HERE = LocalExecutor()
"""This process itself."""
_function: Callable[[Any], Any] | None = None  # of this worker process


def _start_worker(function: Callable[[Any], Any]) -> None:
    """A worker leaves Ctrl-C to its parent, and ends when the parent has ended."""
    global _function
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # also in the middle of an item


def _call(item: Any) -> Any:
    assert _function is not None
    return _function(item)
