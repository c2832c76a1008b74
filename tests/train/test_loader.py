"""The order of samples, their augmentation and their batches follow from seed and number alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.fakes import pairs
from tests.fakes.refusals import refused

from idisc.configs.schema import AugmentConfig, DataConfig, TrainConfig
from idisc.data.dataset import open_dataset
from idisc.errors import DataError, IdiscError, InputError
from idisc.train.loader import Item, Order, Stream, batches, pictures_per_process


def dataset(tmp_path, **counts):
    return open_dataset(pairs.make(tmp_path, **counts), "folder", "train", size=pairs.SIZE)


def stream(folders, **train):
    recipe = pairs.recipe(**train)
    return Stream(folders, recipe.data, recipe.train)


def all_batches(source, start=0, **places):
    share = source.train.batch_size
    return list(batches(source, start, **{"rank": 0, "share": share, "workers": 0, **places}))


def test_every_picture_comes_once_in_an_epoch_and_in_another_order_in_the_next():
    order = Order([5], [], 15, seed=13)
    epochs = [[order[n][1] for n in range(start, start + 5)] for start in (0, 5, 10)]
    assert all(sorted(epoch) == [0, 1, 2, 3, 4] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_folders_are_mixed_by_their_shares_or_by_their_pictures():
    order = Order([10, 1000], [3, 1], 4000, seed=1)
    folders = [order[number][0] for number in range(4000)]
    assert np.mean(np.array(folders) == 0) == pytest.approx(0.75, abs=0.03)
    small = [order[number][1] for number in range(4000) if order[number][0] == 0]
    assert sorted(small[:10]) == list(range(10))
    order = Order([100, 300], [], 4000, seed=1)
    assert np.mean(order.folder == 1) == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("mix", [[1.0], [-1.0, 2.0], [0.0, 0.0]])
def test_wrong_shares_are_refused(mix):
    with refused(InputError, "data.mix"):
        Order([1, 2], mix, 10, seed=1)


def test_a_batch_has_bytes_metres_and_a_mask(tmp_path):
    batch = all_batches(stream([dataset(tmp_path)]))[0]
    assert batch.image.shape == (2, 3, *pairs.SIZE)
    assert batch.image.dtype == torch.uint8
    assert batch.target.shape == batch.valid.shape == (2, 1, *pairs.SIZE)
    assert 0.5 < batch.target[batch.valid].mean() < 6
    assert len(batch.names) == 2


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a single core
def test_batches_do_not_depend_on_the_number_of_workers(tmp_path):
    source = stream([dataset(tmp_path)], iterations=3)
    for mine, theirs in zip(all_batches(source), all_batches(source, workers=2), strict=True):
        assert torch.equal(mine.image, theirs.image)
        assert torch.equal(mine.target, theirs.target)
        assert mine.names == theirs.names


def test_two_processes_share_the_batch_of_one(tmp_path):
    source = stream([dataset(tmp_path)])
    whole = all_batches(source)
    parts = [all_batches(source, rank=rank, share=1) for rank in (0, 1)]
    for one, left, right in zip(whole, *parts, strict=True):
        assert torch.equal(one.image, torch.cat([left.image, right.image]))
        assert torch.equal(one.valid, torch.cat([left.valid, right.valid]))


def test_a_resumed_stream_continues_with_the_next_batch(tmp_path):
    source = stream([dataset(tmp_path)], accumulate=2)
    whole, rest = all_batches(source), all_batches(source, start=4)
    assert len(whole) == 12
    assert len(rest) == 4
    assert all(torch.equal(a.image, b.image) for a, b in zip(whole[8:], rest, strict=True))


def test_a_batch_that_cannot_be_shared_is_refused():
    assert pictures_per_process(6, 3) == 2
    with refused(InputError, "train.batch_size"):
        pictures_per_process(2, 3)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_damaged_picture_is_named_in_the_error(tmp_path, workers):
    source = stream([dataset(tmp_path)])
    for path in (tmp_path / "train" / "images").iterdir():
        path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(IdiscError) as caught:
        all_batches(source, workers=workers)
    assert Path(caught.value.subject).parent == tmp_path / "train" / "images"


def shrink(path):
    with Image.open(path) as picture:
        small = picture.resize((32, 24), Image.Resampling.NEAREST)
    small.save(path)


def test_targets_of_several_sizes_are_resized_to_one(tmp_path):
    first = dataset(tmp_path / "a")
    for path in (pairs.make(tmp_path / "b") / "train" / "depth").iterdir():
        shrink(path)
    second = open_dataset(tmp_path / "b", "folder", "train", size=pairs.SIZE)
    source = Stream([first, second], DataConfig(size=pairs.SIZE), TrainConfig(iterations=2))
    assert {batch.target.shape[2:] for batch in all_batches(source)} == {pairs.SIZE}
    for kind in ("images", "depth"):  # pictures of several sizes in one folder
        shrink(tmp_path / "a" / "train" / kind / "0.png")
    source = stream([open_dataset(tmp_path / "a", "folder", "train", size=pairs.SIZE)])
    assert {batch.target.shape[2:] for batch in all_batches(source)} == {pairs.SIZE}


def test_targets_of_several_sizes_in_one_batch_are_refused(tmp_path):
    source = stream([dataset(tmp_path)])
    shrink(tmp_path / "train" / "depth" / "0.png")
    with pytest.raises(DataError) as caught:
        all_batches(source)
    assert "24x32" in caught.value.reason


def test_a_sample_without_augmentation_equals_the_stored_one(tmp_path):
    folder = dataset(tmp_path)
    still = AugmentConfig(flip=0, colour=0, gamma=0, rotation_deg=0, zoom=0, translation=0)
    recipe = pairs.recipe()
    source = Stream([folder], replace(recipe.data, augment=still), recipe.train)
    item = source[0]
    assert isinstance(item, Item)
    stored = folder[source.order[0][1]]
    np.testing.assert_allclose(item.image.astype(int), stored.image.astype(int), atol=2)
    np.testing.assert_array_equal(item.target, stored.target)
