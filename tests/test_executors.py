"""Local processes: each item once, exceptions as values, a dead worker is replaced."""

import os
import signal

from idisc.executors import LocalExecutor, WorkerDied, in_order


def half(number):
    if number % 2:
        raise ValueError(number)
    return number // 2


class Deadly:
    """Kills its worker: with item 3 whenever it comes, with item 5 the first time."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, number):
        seen = self.folder / str(number)
        if number == 3 or (number == 5 and not seen.exists()):
            seen.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number


def test_exceptions_are_values_and_results_can_be_ordered():
    outcomes = list(in_order(LocalExecutor().map(half, range(4))))
    assert [outcome.value for outcome in outcomes] == [0, None, 1, None]
    assert [type(outcome.error) for outcome in outcomes[:2]] == [type(None), ValueError]


def test_a_dead_worker_costs_only_the_item_that_kills_it(tmp_path):
    outcomes = list(LocalExecutor(2).map(Deadly(tmp_path), range(8)))
    assert sorted(outcome.index for outcome in outcomes) == list(range(8))
    errors = {each.item: type(each.error) for each in outcomes if each.error}
    assert errors == {3: WorkerDied}
