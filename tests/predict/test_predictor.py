"""Predictor: any picture at the right size through any engine, and provenance that says so."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.fakes import pairs
from tests.fakes.brightness import Brightness, picture, ramp
from tests.fakes.refusals import refused

import idisc
from idisc.data.dataset import open_dataset
from idisc.errors import CheckpointError, IdiscWarning, InputError
from idisc.evaluate.run import predict_sample
from idisc.images import read_photo
from idisc.predict.engine import Output
from idisc.predict.options import PredictOptions
from idisc.predict.predictor import Predictor
from idisc.provenance import TileGrid
from idisc.sizes import fit_aspect, resize_map
from idisc.tasks import NORMALS

# The network's size


@pytest.mark.parametrize(
    ("trained", "shown", "expected"),
    [
        ((480, 640), (480, 640), (480, 640)),
        ((480, 640), (3000, 4000), (480, 640)),
        ((580, 1280), (1160, 2560), (580, 1280)),  # not of steps of 32, but as in training
        ((480, 640), (4000, 3000), (640, 480)),
        ((480, 640), (1080, 1920), (416, 736)),
        ((480, 640), (16, 16), (544, 544)),
        ((240, 320), (576, 1024), (192, 352)),  # not 192x384: that would be squeezed by an eighth
        ((480, 640), (16, 12_000), (32, 9600)),
        ((480, 640), (12_000, 16), (9600, 32)),
        ((48, 64), (100, 100), (64, 64)),
    ],
)
def test_the_network_size_keeps_the_area_and_the_aspect_ratio(trained, shown, expected):
    assert fit_aspect(trained, shown) == expected


@given(st.integers(100, 4000), st.integers(100, 4000))
def test_network_sizes_are_multiples_of_32_near_the_aspect_ratio(height, width):
    rows, columns = fit_aspect((480, 640), (height, width))
    assert rows % 32 == columns % 32 == 0
    assert 0.7 < rows * columns / (480 * 640) < 1.4
    if 1 / 2 <= height / width <= 2:
        assert 0.95 < (rows / columns) / (height / width) < 1.05


def test_the_picture_is_reduced_and_the_result_resized_once(engine):
    result = Predictor(engine).predict(picture(96, 128))
    assert engine.calls == [((1, 48, 64, 3), (96, 128))]
    assert (result.depth.shape, result.depth.dtype) == ((96, 128), np.float32)
    np.testing.assert_allclose(result.depth, 2.0)
    made = result.provenance
    assert (made.network_size, made.network_size_reason) == ((48, 64), "training")


@pytest.mark.parametrize("size", ["480x640", (480,), 480, (480.5, 640), (0, 640)])
def test_a_size_is_a_height_and_a_width(engine, size):
    for changes in ({"size": size}, {"tile": size}):
        with refused(InputError, f"{next(iter(changes))} {size!r}"):
            PredictOptions(**changes)


def test_a_size_with_too_many_pixels_is_refused(engine):
    with refused(InputError, "size 5000x5000"):
        Predictor(engine).predict(picture(), size=(5000, 5000))
    assert engine.calls == []


def test_a_file_for_one_size_gets_that_size(engine):
    engine.fixed_size = (40, 40)
    with pytest.warns(IdiscWarning, match="96x128 squeezed into 40x40"):
        result = Predictor(engine).predict(picture(96, 128))
    assert engine.calls == [((1, 40, 40, 3), (96, 128))]
    assert result.provenance.network_size_reason == "file"
    with refused(InputError, "size 48x64", "40x40"):
        Predictor(engine).predict(picture(), size=(48, 64))


def test_the_default_size_is_used_if_the_training_size_is_unknown():
    engine = Brightness(origin={})
    result = Predictor(engine).predict(picture(200, 200))
    assert engine.calls[0][0] == (1, 544, 544, 3)
    made = result.provenance
    assert (made.network_size, made.network_size_reason) == ((544, 544), "aspect")


@pytest.mark.filterwarnings("ignore::idisc.errors.IdiscWarning")
@pytest.mark.parametrize("size", [(16, 16), (1, 1), (700, 16)])
def test_tiny_pictures_have_results_of_their_size(engine, size):
    assert Predictor(engine).predict(picture(*size)).depth.shape == size


# Pictures of every kind, alone and together


def test_successive_pictures_of_one_size_are_batched(engine):
    sizes = [(96, 128), (48, 64), (48, 64), (64, 48), *[(48, 64)] * 5]
    sources = [picture(*size, shade=20 * index) for index, size in enumerate(sizes)]
    results = list(Predictor(engine).predict_many(iter(sources)))
    assert [result.size for result in results] == sizes
    for index, result in enumerate(results):
        np.testing.assert_allclose(result.metres, 1 + 0.2 * index, rtol=1e-6)
    assert [call[0][0] for call in engine.calls] == [1, 2, 1, 4, 1]  # at most four together


def test_pictures_at_a_large_network_size_are_not_batched(engine):
    with pytest.warns(IdiscWarning):
        list(Predictor(engine).predict_many([picture(), picture()], size=(1536, 2048)))
    assert [call[0][0] for call in engine.calls] == [1, 1]


def test_many_pictures_without_a_name_are_numbered(engine, tmp_path):
    path = tmp_path / "picture"  # a file may have the name of pictures without one
    Image.fromarray(picture()).save(path, format="PNG")
    named = read_photo(path.read_bytes(), "bytes")
    sources = [picture(), path, named, path.read_bytes(), Image.fromarray(picture())]
    results = Predictor(engine).predict_many(sources)
    names = [result.provenance.picture for result in results]
    assert names == ["array_1", "picture", "bytes", "bytes_4", "picture_5"]
    assert Predictor(engine).predict(picture()).provenance.picture == "array"


def test_many_pictures_are_read_ahead_until_one_fails(engine, tmp_path):
    results = Predictor(engine).predict_many([picture(), picture(96, 128), tmp_path / "none.jpg"])
    assert next(results).size == (48, 64)
    with refused(InputError, tmp_path / "none.jpg"):
        list(results)


def test_options_are_a_value_that_keywords_change(engine):
    options = PredictOptions(size=(56, 72))
    assert Predictor(engine).predict(picture(), options).provenance.network_size == (56, 72)
    changed = Predictor(engine).predict(picture(), options, size=(48, 64), flip=True)
    assert (changed.provenance.network_size, changed.provenance.flip) == ((48, 64), True)
    with pytest.raises(TypeError, match="tta"):
        Predictor(engine).predict(picture(), tta=True)


# Predicting is evaluating


def test_predicting_a_file_equals_evaluating_it(checkpoint, tmp_path):
    data = pairs.make(tmp_path / "data", train=0, test=2)
    model = idisc.load(checkpoint)
    for size in (None, (48, 64), (54, 72)):
        dataset = open_dataset(data, "folder", "test", size=size or pairs.SIZE)
        for index in range(2):
            predicted = model.predict(data / "test" / "images" / f"{index}.png", size=size)
            scored = predict_sample(model, dataset[index]).maps
            np.testing.assert_array_equal(predicted.depth, scored)


def test_nan_from_a_network_is_an_error(engine):
    broken = Brightness()
    broken.run = lambda images, size=None: Output(np.full((len(images), *size), np.nan, np.float32))
    with refused(CheckpointError, "brightness"):
        Predictor(broken).predict(picture())


# Standard deviation and flipped passes


def test_the_deviation_of_a_checkpoint_is_that_of_its_levels(checkpoint):
    model = idisc.load(checkpoint)
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    result = model.predict(image)
    network = model.engine.network
    with torch.no_grad():
        output = network(torch.tensor(image)[None].permute(0, 3, 1, 2) / 255)
    levels = [resize_map(level.exp()[0, 0].numpy(), (12, 16)) for level in output.levels]
    logs = [np.log(level) - np.log(level).mean() for level in levels]  # of the same mean
    expected = resize_map(np.std(logs, axis=0) * np.mean(levels, axis=0), (48, 64))
    assert result.level_std is not None
    np.testing.assert_allclose(result.level_std, expected, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(
        result.depth, resize_map(np.mean(levels, axis=0), (48, 64)), rtol=1e-4
    )
    assert result.provenance.level_std == ("levels",)


def test_flip_is_the_mean_of_the_picture_and_its_mirror_image(checkpoint):
    model = idisc.load(checkpoint)
    plain, mirrored = model.predict(ramp()), model.predict(ramp()[:, ::-1])
    both = model.predict(ramp(), flip=True)
    flipped = mirrored.depth[:, ::-1]
    np.testing.assert_allclose(both.depth, (plain.depth + flipped) / 2, rtol=1e-4)
    assert both.level_std is not None
    within = (plain.level_std**2 + mirrored.level_std[:, ::-1] ** 2) / 2
    between = ((plain.depth - flipped) / 2) ** 2
    np.testing.assert_allclose(both.level_std, np.sqrt(within + between), rtol=1e-3, atol=1e-6)
    assert both.provenance.level_std == ("levels", "flip")
    again = model.predict(ramp()[:, ::-1], flip=True)
    np.testing.assert_allclose(both.depth, again.depth[:, ::-1], rtol=1e-4)


def test_an_engine_without_levels_has_the_deviation_of_the_mirror_image():
    model = Predictor(Brightness(spread=None))
    assert model.predict(ramp()).level_std is None
    result = model.predict(ramp(), flip=True)
    assert result.level_std is not None
    np.testing.assert_allclose(result.level_std, 0, atol=1e-6)
    assert result.provenance.level_std == ("flip",)


# Tiles and normals


def test_large_pictures_are_refined_in_tiles(engine):
    image = ramp(200, 300)
    model = Predictor(engine)
    plain, tiled = model.predict(image), model.predict(image, tile=(64, 64))
    assert tiled.provenance.tiles == TileGrid(count=24, size=(64, 64))
    exact = 1 + image[..., 0] / 100
    assert np.abs(tiled.depth - exact).mean() <= np.abs(plain.depth - exact).mean()
    np.testing.assert_allclose(tiled.depth, exact, rtol=0.05)
    assert tiled.level_std is not None
    chosen = model.predict(image, tile=True)
    assert chosen.provenance.tiles.count <= 16
    small = model.predict(picture(), tile=True)
    assert small.provenance.tiles == TileGrid(count=1, size=(48, 64))


def test_normals_are_computed_from_depth_on_request(engine):
    model = Predictor(engine)
    assert model.predict(picture()).normals is None
    result = model.predict(picture(), normals=True)
    assert result.normals is not None
    np.testing.assert_allclose(result.normals, np.broadcast_to([0, 0, -1], (48, 64, 3)), atol=1e-6)
    assert result.provenance.normals == "depth"


def test_a_network_for_normals_gives_unit_normals_and_no_depth(engine):
    engine.task = NORMALS
    image = np.zeros((48, 64, 3), np.uint8)
    image[..., 0], image[..., 2] = 60, 80
    result = Predictor(engine).predict(image)
    np.testing.assert_allclose(result.normals[5, 5], [0.6, 0, 0.8], atol=1e-6)
    assert result.depth is None
    assert result.level_std is None
    assert result.provenance.normals == "model"
    mirrored = Predictor(engine).predict(image, flip=True).normals
    np.testing.assert_allclose(mirrored[5, 5], [0, 0, 1], atol=1e-6)  # x of both cancels
    with pytest.raises(InputError):
        Predictor(engine).predict(image, tile=True)
