"""`predict.stages`: order, errors and the limit of what is in progress."""

import threading

import pytest

from idisc.predict.stages import in_stages


def test_results_are_in_order_and_an_error_stays_with_its_item():
    def halve(number):
        if number % 2:
            raise ValueError(number)
        return number // 2

    futures = list(in_stages([4, 3, 2], [halve, str], cost=lambda _: 1, budget=2))
    assert [futures[0].result(), futures[2].result()] == ["2", "1"]
    with pytest.raises(ValueError, match="3"):
        futures[1].result()


def test_stages_overlap_within_the_budget():
    second_was_read = threading.Event()
    read = []

    def first(number):
        read.append(number)
        if len(read) == 2:
            second_was_read.set()
        return number

    def last(number):
        assert second_was_read.wait(10)  # the next item is read while this one is written
        return number

    for done, future in enumerate(in_stages(range(5), [first, last], cost=float, budget=3), 1):
        assert future.result() == done - 1
        assert sum(read[done:]) <= 3
