"""Validation: shared between processes, and drawn as pictures."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.fakes import pairs

from idisc.data.dataset import open_dataset
from idisc.errors import DataError
from idisc.evaluate.protocols import PAPER
from idisc.evaluate.scoring import score
from idisc.model.network import IDisc
from idisc.tasks import NORMALS
from idisc.train import validation
from idisc.train.distributed import World


class Half(World):
    """One of two processes; what the other one found is known."""

    other: tuple[Any, ...] = ()

    def gather(self, items):
        object.__setattr__(self, "mine", items)
        return [*items, *self.other]


@pytest.fixture
def dataset(tmp_path):
    return open_dataset(pairs.make(tmp_path, train=1, test=3), "folder", "test", size=(32, 80))


def test_pictures_of_all_processes_are_shown_in_order(dataset):
    torch.manual_seed(0)
    network = IDisc(pairs.TINY).eval()
    alone, cases = validation.validate(network, dataset, World(torch.device("cpu")), 0, {})
    second = Half(torch.device("cpu"), rank=1, size=2)
    validation.validate(network, dataset, second, 0, {})
    first = Half(torch.device("cpu"), rank=0, size=2)
    object.__setattr__(first, "other", tuple(second.mine))
    together, shown = validation.validate(network, dataset, first, 0, {})
    assert together == pytest.approx(alone, rel=1e-4)
    assert [case.row.name for case in shown] == [case.row.name for case in cases]
    assert len(shown) == 3


def test_an_error_in_another_process_is_raised_here_too(dataset):
    world = Half(torch.device("cpu"), rank=0, size=2)
    error = DataError("7.png", "no such file")
    object.__setattr__(world, "other", (error,))
    with pytest.raises(DataError) as caught:
        validation.validate(IDisc(pairs.TINY).eval(), dataset, world, 0, {})
    assert caught.value is error


def test_picture_and_depth_are_drawn_in_the_same_shape(dataset):
    sample = dataset[0]
    assert sample.image.shape[:2] == (32, 80)
    case, _ = score(sample, sample.target, PAPER, dataset.spec)
    row = validation.draw_row(case, 0.5)
    widths = 4 * validation.HEIGHT * pairs.SIZE[1] // pairs.SIZE[0]
    assert widths <= row.shape[1] < widths + 40  # four of one width and the gaps between them


def test_normals_have_a_picture_of_their_error(dataset):
    case, _ = score(dataset[0], dataset[0].target, PAPER, dataset.spec)
    normals = np.zeros((*pairs.SIZE, 3), np.float32)
    normals[..., 2] = -1
    sample = replace(case.sample, target=normals, task=NORMALS)
    flat = replace(case, sample=sample, prediction=normals)
    turned = replace(flat, prediction=normals[..., [2, 1, 0]])
    right, wrong = (validation.draw_row(each, 30.0)[-20, -20] for each in (flat, turned))
    assert right[2] > right[0]  # blue: no error
    assert wrong[0] > wrong[2]  # red: 90 degrees
