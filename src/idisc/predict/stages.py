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

    Each stage has a thread of its own and takes the result of the stage before, the first one the
    item. An error skips the other stages of its item and is raised by the future. The costs of the
    items in progress sum up to `budget` at most, unless there is only one.
    """
    waiting: deque[tuple[float, Future[Any]]] = deque()
    with ExitStack() as stack:
        pools = [stack.enter_context(ThreadPoolExecutor(1)) for _ in stages]
        try:
            for item in items:
                price = cost(item)
                while waiting and price + sum(each for each, _ in waiting) > budget:
                    yield _finished(waiting.popleft()[1])
                waiting.append((price, _submit(item, stages, pools)))
            while waiting:
                yield _finished(waiting.popleft()[1])
        finally:  # if the caller stops early, items that have not started are dropped
            for pool in pools:
                pool.shutdown(wait=False, cancel_futures=True)


def _submit(
    item: Any, stages: Sequence[Callable[[Any], Any]], pools: Sequence[ThreadPoolExecutor]
) -> Future[Any]:
    last: Future[Any] = Future()
    last.set_result(item)
    for stage, pool in zip(stages, pools, strict=True):
        last = pool.submit(_continue, stage, last)
    return last


def _continue(stage: Callable[[Any], Any], before: Future[Any]) -> Any:
    return stage(before.result())


def _finished(future: Future[Any]) -> Future[Any]:
    wait([future])
    return future
