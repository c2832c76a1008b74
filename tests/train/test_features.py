"""Cached features of a frozen encoder."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.fakes import pairs, vit
from tests.fakes.refusals import refused
from tests.fakes.training import ALONE, losses, start, stop_after

from idisc.configs.schema import AugmentConfig, TrainConfig
from idisc.data.dataset import open_dataset
from idisc.errors import DataError, InputError
from idisc.model.network import IDisc
from idisc.train import features, launch
from idisc.train.loader import Stream

MOVES = ("flip", "colour", "gamma", "contrast_weight", "geometry_weight", "translation_weight")
STILL = AugmentConfig(**dict.fromkeys(MOVES, 0.0))


def recipe(augment=STILL, **train):
    made = pairs.recipe(**{"iterations": 4, "freeze": ("encoder",), "views": 3, **train})
    return replace(made, data=replace(made.data, augment=augment))


def losses_of(data, out, made):
    start(made, data, out).train()
    return losses(out)


def test_cached_features_train_like_the_encoder_and_are_computed_once(data, tmp_path, monkeypatch):
    cache = tmp_path / "features"
    made = recipe(cache_features=str(cache))
    with_encoder = losses_of(data, tmp_path / "a", recipe())
    with_features = losses_of(data, tmp_path / "b", made)
    assert with_features == pytest.approx(with_encoder, rel=0.02)  # half precision
    start(made, pairs.make(tmp_path / "others", train=5), tmp_path / "c")
    start(recipe(cache_features=str(cache), views=2), data, tmp_path / "d")
    start(recipe(replace(STILL, flip=0.3), cache_features=str(cache)), data, tmp_path / "e")
    assert len(list(cache.iterdir())) == 4
    monkeypatch.setattr(features, "write_rows", lambda *_: pytest.fail("computed again"))
    stop_after(start(made, data, tmp_path / "parts"), 2)
    launch.resume(tmp_path / "parts", ALONE).train()
    assert losses(tmp_path / "parts") == with_features
    for path in cache.glob("*/*_crc32.npy"):  # earlier versions stored none
        path.unlink()
    assert losses_of(data, tmp_path / "unverified", made) == with_features


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    data = pairs.make(tmp_path / "data")
    taken = str(data / "train" / "images" / "0.png")
    with refused(InputError, "train.cache_features", taken):
        start(recipe(cache_features=taken), data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["features.0.npy", "features.1.npy", "depth.npy"])
@pytest.mark.parametrize("damage", ["values", "header", "end", "all"])
def test_damaged_features_are_not_trained_on(data, tmp_path, name, damage):
    run = start(recipe(cache_features=str(tmp_path / "features")), data, tmp_path / "run")
    [path] = (tmp_path / "features").glob(f"*/{name}")
    content = path.read_bytes()
    header = content.index(b"\n") + 1
    damaged = {
        "values": content[:header] + bytes(255 - byte for byte in content[header:]),
        "header": content.replace(b"'descr'", b"'other'"),
        "end": content[:-1],
        "all": b"",
    }
    path.write_bytes(damaged[damage])
    with refused(DataError, path, str(path.parent)):
        run.train()
    shutil.rmtree(path.parent)
    assert launch.resume(tmp_path / "run", ALONE).train().finished


def stream(data, **train):
    made = recipe(AugmentConfig(), **train)
    return Stream([open_dataset(data, "folder", "train", size=pairs.SIZE)], made.data, made.train)


def test_weights_that_differ_in_the_sign_of_zero_share_a_cache(tmp_path):
    network, data = IDisc(pairs.TINY).requires_grad_(False), stream(pairs.make(tmp_path / "data"))
    paths = []
    for zero in (0.0, -0.0):
        next(network.encoder.parameters()).flatten()[0] = zero
        paths += features.cache_features(network, data, tmp_path / "features", ALONE)
    assert paths[0] == paths[1]


@pytest.mark.parametrize("rows", [0, 2, 5, 14, 15])
def test_an_interrupted_cache_is_continued(tmp_path, rows):
    """Fifteen rows of two arrays; the second file is one row behind the first."""

    def arrays(rows):
        return np.array(rows, np.int32), np.array([[n, -n] for n in rows], np.float16)

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert list(features.write_rows(whole, "x", arrays, 15)) == [4, 8, 12, 15]
    np.testing.assert_array_equal(np.load(whole / "x.0.npy"), np.arange(15))
    parts.mkdir()
    for path in whole.iterdir():
        content, row = path.read_bytes(), np.load(path, mmap_mode="r")[0].nbytes
        count = rows - (path.name == "x.1.npy") if rows else 0
        (parts / path.name).write_bytes(content[: len(content) - (15 - count) * row + (count < 15)])
    done = list(features.write_rows(parts, "x", arrays, 15))
    assert done == [n for n in (4, 8, 12, 15) if n > max(rows - 1, 0) // 4 * 4]
    for path in whole.iterdir():
        assert (parts / path.name).read_bytes() == path.read_bytes(), path.name


def test_depth_and_normals_of_the_same_pictures_share_their_features(tmp_path, monkeypatch):
    data, network = pairs.make(tmp_path / "data", train=2), IDisc(pairs.TINY).requires_grad_(False)
    pairs.write_table(data, fx=20, fy=20, cx=15.5, cy=11.5)
    depth = stream(data)
    [path] = features.cache_features(network, depth, tmp_path / "features", ALONE)
    monkeypatch.setattr(IDisc, "extract", lambda *_: pytest.fail("extracted again"))
    normals = Stream(
        [open_dataset(data, "folder:normals", "train", size=pairs.SIZE)], depth.data, depth.train
    )
    assert features.cache_features(network, normals, tmp_path / "features", ALONE) == [path]
    both = [
        features.FeatureStream(each.folders, each.data, each.train, [path]).item(
            0, 1, np.random.default_rng(0)
        )
        for each in (depth, normals)
    ]
    assert both[0].image.tobytes() == both[1].image.tobytes()
    assert both[0].target.shape == pairs.SIZE
    assert both[1].target.shape == (*pairs.SIZE, 3)


@pytest.mark.parametrize("encoder", [pairs.TINY.encoder, "vit"])
def test_a_view_is_an_augmented_sample_with_the_features_of_its_image(
    encoder, tmp_path, monkeypatch
):
    if encoder == "vit":
        encoder = vit.register(monkeypatch)
    source = stream(pairs.make(tmp_path / "data", train=2))
    network = IDisc(replace(pairs.TINY, encoder=encoder)).requires_grad_(False)
    paths = features.cache_features(network, source, tmp_path / "features", ALONE)
    cached = features.FeatureStream(source.folders, source.data, source.train, paths)
    images = set()
    for seed in range(12):
        item = cached.item(0, 1, np.random.default_rng(seed))
        images.add(item.image.tobytes())
        rgb = torch.tensor(item.image).permute(2, 0, 1)[None] / 255
        for mine, expected in zip(item.extracted, network.extract(rgb), strict=True):
            assert mine.dtype == np.float16
            np.testing.assert_allclose(mine, expected[0].numpy(), rtol=1e-2, atol=1e-2)
        assert item.name == source.folders[0].records[1].image
        shade = 1 - item.image[..., 0] / 255  # brightness is nearness, up to colours and edges
        assert np.corrcoef(item.target[item.valid], shade[item.valid])[0, 1] > 0.8
        assert 2 < item.target[item.valid].mean() < 5
    assert len(images) == 3


def test_an_encoder_that_does_not_run_is_not_compiled():
    with refused(InputError, "compile"):
        TrainConfig(cache_features="somewhere", freeze=("encoder",), compile=True)


def test_only_the_transformer_of_a_vit_must_be_frozen(tmp_path, monkeypatch):
    source = stream(pairs.make(tmp_path / "data", train=1))
    network = IDisc(replace(pairs.TINY, encoder=vit.register(monkeypatch)))
    with pytest.raises(InputError):
        features.cache_features(network, source, tmp_path, ALONE)
    network.encoder.vit.requires_grad_(False)
    assert features.cache_features(network, source, tmp_path, ALONE)
