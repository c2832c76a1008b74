"""Work in stages, such as reading, predicting and writing, that overlap for successive items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Any, TypeVar

Item = TypeVar("Item")


def in_stages(
    items: Iterable[Item],
    stages: Sequence[Callable[[Any], Any]],
    *,
    cost: Callable[[Item], float],
    budget: float,
) -> Iterator[Future[Any]]:
    """Yield the result of the last stage for each item, in order, as a future that is done.

    Each stage runs in its own thread and takes the result of the previous stage; the first stage
    takes the item. An error skips the remaining stages of its item and is raised by the future. The
    costs of the items in progress add up to at most `budget`, unless there is only one item.
    """
    waiting: deque[tuple[float, Future[Any]]] = deque()
    with ExitStack() as stack:
        pools = [stack.enter_context(ThreadPoolExecutor(1)) for _ in stages]
        try:
            for item in items:
                item_cost = cost(item)
                while waiting and item_cost + sum(other for other, _ in waiting) > budget:
                    yield _finished(waiting.popleft()[1])
                waiting.append((item_cost, _submit(item, stages, pools)))
            while waiting:
                yield _finished(waiting.popleft()[1])
        finally:  # if the caller stops early, items that have not started are dropped
            for pool in pools:
                pool.shutdown(wait=False, cancel_futures=True)


def _submit(
    item: Any, stages: Sequence[Callable[[Any], Any]], pools: Sequence[ThreadPoolExecutor]
) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(item)
    for stage, pool in zip(stages, pools, strict=True):
        future = pool.submit(lambda run, previous: run(previous.result()), stage, future)
    return future


def _finished(future: Future[Any]) -> Future[Any]:
    wait([future])
    return future
