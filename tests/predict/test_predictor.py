"""Predictor: any picture at the right size through any engine, and facts that say so."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.fakes import onnx_files, pairs
from tests.fakes.brightness import FACTS, Brightness, jpeg, picture, ramp

import idisc
from idisc.data.dataset import open_dataset
from idisc.errors import CheckpointError, IdiscWarning, InputError
from idisc.evaluate.run import EnginePredictor
from idisc.model.checkpoint import save_checkpoint
from idisc.model.network import IDisc
from idisc.predict.predictor import Predictor, adapted
from idisc.sizes import resize_map


@pytest.fixture
def engine() -> Brightness:
    return Brightness()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("weights") / "tiny"
    save_checkpoint(folder, pairs.TINY, IDisc(pairs.TINY).state_dict(), FACTS)
    return folder


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
def test_the_network_sees_as_many_pixels_in_the_shape_of_the_picture(
    trained: tuple[int, int], shown: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert adapted(trained, shown) == expected


@given(st.integers(100, 4000), st.integers(100, 4000))
def test_sizes_are_of_steps_of_32_and_near_the_shape(height: int, width: int) -> None:
    rows, columns = adapted((480, 640), (height, width))
    assert rows % 32 == columns % 32 == 0
    assert 0.7 < rows * columns / (480 * 640) < 1.4
    if 1 / 2 <= height / width <= 2:
        assert 0.95 < (rows / columns) / (height / width) < 1.05


def test_the_picture_is_reduced_and_the_answer_comes_back_in_one_step(engine: Brightness) -> None:
    result = Predictor(engine).predict(picture(96, 128))
    assert engine.calls == [((1, 48, 64, 3), (96, 128))]
    assert (result.depth.shape, result.depth.dtype) == ((96, 128), np.float32)
    np.testing.assert_allclose(result.depth, 2.0)
    assert result.facts["network size"] == "48x64, as in training"


def test_another_size_may_be_asked_for(engine: Brightness) -> None:
    result = Predictor(engine).predict(picture(96, 128), size=(56, 72))
    assert engine.calls == [((1, 56, 72, 3), (96, 128))]
    assert result.facts["network size"] == "56x72, as asked for"
    assert "warning" not in result.facts


@pytest.mark.parametrize("size", ["480x640", (480,), 480, (480.5, 640), (0, 640)])
def test_a_size_is_a_height_and_a_width(engine: Brightness, size: Any) -> None:
    with pytest.raises(InputError, match=r"^size .*: \(height, width\) in pixels is needed$"):
        Predictor(engine).predict(picture(), size=size)
    with pytest.raises(InputError, match=r"^tile .*: \(height, width\) in pixels is needed$"):
        Predictor(engine).predict(picture(), tile=size)


def test_a_size_that_no_memory_holds_is_refused(engine: Brightness) -> None:
    message = r"^size 5000x5000: more than 8\.4 million pixels in the network; choose a smaller"
    with pytest.raises(InputError, match=message):
        Predictor(engine).predict(picture(), size=(5000, 5000))
    assert engine.calls == []


def test_a_file_for_one_size_gets_that_size(engine: Brightness) -> None:
    engine.fixed_size = (40, 40)
    with pytest.warns(IdiscWarning, match=r"96x128 squeezed into 40x40, .* a file for any size"):
        result = Predictor(engine).predict(picture(96, 128))
    assert engine.calls == [((1, 40, 40, 3), (96, 128))]
    assert result.facts["network size"] == "40x40, the only size of this file"
    with pytest.raises(InputError, match=r"^size 48x64: brightness is for 40x40 alone; leave it"):
        Predictor(engine).predict(picture(), size=(48, 64))


def test_the_usual_size_is_taken_when_training_is_unknown() -> None:
    engine = Brightness(origin={})
    result = Predictor(engine).predict(picture(200, 200))
    assert engine.calls[0][0] == (1, 544, 544, 3)
    expected = "544x544: 480x640 (usual) in the shape of the picture"
    assert result.facts["network size"] == expected


@pytest.mark.filterwarnings("ignore:.* a picture of .* pixels:idisc.errors.IdiscWarning")
@pytest.mark.parametrize("size", [(16, 16), (1, 1), (700, 16)])
def test_tiny_pictures_come_back_at_their_size(engine: Brightness, size: tuple[int, int]) -> None:
    assert Predictor(engine).predict(picture(*size)).depth.shape == size


# Pictures of every kind, alone and together


def test_every_kind_of_picture_is_taken(engine: Brightness, tmp_path: Path) -> None:
    path = tmp_path / "room.png"
    Image.fromarray(ramp()).save(path)
    tensor = torch.from_numpy(ramp()).permute(2, 0, 1)
    sources = [path, str(path), path.read_bytes(), io.BytesIO(path.read_bytes())]
    predictor = Predictor(engine)
    results = predictor.predict([*sources, Image.open(path), ramp(), tensor, tensor / 255])
    assert len(results) == 8
    for result in results:
        np.testing.assert_array_equal(result.depth, results[0].depth)
        np.testing.assert_array_equal(result.image, ramp())
    assert results[0].facts["picture"] == "room.png"
    assert predictor.predict((path,))[0].facts["picture"] == "room.png"


def test_pictures_of_mixed_sizes_go_together_where_they_can(engine: Brightness) -> None:
    sizes = [(48, 64), (96, 128), (48, 64), (64, 48), (48, 64), (48, 64), (48, 64)]
    sources = [picture(*size, shade=20 * index) for index, size in enumerate(sizes)]
    results = Predictor(engine).predict(sources)
    assert [result.depth.shape for result in results] == sizes
    for index, result in enumerate(results):
        np.testing.assert_allclose(result.depth, 1 + 0.2 * index, rtol=1e-6)
    assert [call[0][0] for call in engine.calls] == [4, 1, 1, 1]  # five of one size, at most four


def test_pictures_at_a_large_size_go_one_by_one(engine: Brightness) -> None:
    with pytest.warns(IdiscWarning, match="size 1536x2048, 48x64 in training, which moves metres"):
        Predictor(engine).predict([picture(), picture()], size=(1536, 2048))
    assert [call[0][0] for call in engine.calls] == [1, 1]


def test_pictures_without_a_name_do_not_share_one_in_a_list(engine: Brightness) -> None:
    results = Predictor(engine).predict([picture(), jpeg(30), picture()])
    assert [result.facts["picture"] for result in results] == ["array_1", "bytes_2", "array_3"]
    assert Predictor(engine).predict(picture()).facts["picture"] == "array"


def test_what_is_no_picture_is_named(engine: Brightness, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jpg: no such file"):
        Predictor(engine).predict([picture(), tmp_path / "none.jpg"])


def test_notes_about_the_picture_reach_the_result(engine: Brightness) -> None:
    result = Predictor(engine).predict(np.full((48, 64), 30_000, np.uint16))
    assert result.facts["notes"] == "16-bit reduced to 8"


# Predicting is evaluating


def test_predicting_a_file_equals_evaluating_it(checkpoint: Path, tmp_path: Path) -> None:
    data = pairs.make(tmp_path / "data", train=0, test=2)
    model = idisc.load(checkpoint)
    for size in (None, (48, 64), (54, 72)):
        dataset = open_dataset(data, "folder", "test", size=size or pairs.SIZE)
        evaluate = EnginePredictor(model.engine)
        for index in range(2):
            predicted = model.predict(data / "test" / "images" / f"{index}.png", size=size)
            np.testing.assert_array_equal(predicted.depth, evaluate(dataset[index]))


def test_both_engines_are_loaded_by_their_path(checkpoint: Path, tmp_path: Path) -> None:
    onnx = onnx_files.depth_of_brightness(tmp_path / "small.onnx")
    for path in (checkpoint, str(onnx)):
        result = idisc.load(path).predict(ramp())
        assert result.depth.shape == (48, 64)
    result = idisc.load(onnx).predict(picture(shade=50))
    np.testing.assert_allclose(result.depth, 1.5)
    assert result.spread is None
    assert "spread" not in result.facts
    assert result.facts["model"].startswith("small.onnx (sha256 ")


def test_a_network_that_answers_nan_is_not_believed(engine: Brightness) -> None:
    broken = Brightness()
    broken.with_spread = lambda images, size=None: (  # type: ignore[method-assign]
        np.full((len(images), *size), np.nan, np.float32),  # type: ignore[misc]
        None,
    )
    with pytest.raises(CheckpointError, match="brightness: predicts NaN or infinity"):
        Predictor(broken).predict(picture())


# Spread and mirrored passes


def test_spread_of_a_checkpoint_is_that_of_its_resolutions(checkpoint: Path) -> None:
    model = idisc.load(checkpoint)
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    result = model.predict(image)
    network = model.engine.network  # type: ignore[attr-defined]
    with torch.no_grad():
        output = network(torch.tensor(image)[None].permute(0, 3, 1, 2) / 255)
    levels = [resize_map(level.exp()[0, 0].numpy(), (12, 16)) for level in output.levels]
    logs = [np.log(level) - np.log(level).mean() for level in levels]  # of the same mean
    expected = resize_map(np.std(logs, axis=0) * np.mean(levels, axis=0), (48, 64))
    assert result.spread is not None
    np.testing.assert_allclose(result.spread, expected, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(
        result.depth, resize_map(np.mean(levels, axis=0), (48, 64)), rtol=1e-4
    )
    assert result.facts["spread"] == (
        "standard deviation of the network's answers at its resolutions, in metres; no error bound"
    )


def test_tta_is_the_mean_of_the_picture_and_its_mirror_image(checkpoint: Path) -> None:
    model = idisc.load(checkpoint)
    plain, mirrored = model.predict(ramp()), model.predict(ramp()[:, ::-1])
    both = model.predict(ramp(), tta=True)
    flipped = mirrored.depth[:, ::-1]
    np.testing.assert_allclose(both.depth, (plain.depth + flipped) / 2, rtol=1e-4)
    assert plain.spread is not None
    assert mirrored.spread is not None
    assert both.spread is not None
    within = (plain.spread**2 + mirrored.spread[:, ::-1] ** 2) / 2
    between = ((plain.depth - flipped) / 2) ** 2
    np.testing.assert_allclose(both.spread, np.sqrt(within + between), rtol=1e-3, atol=1e-6)
    assert "mirror image" in both.facts["spread"]
    assert both.facts["tta"] == "mean of the picture and its mirror image"
    again = model.predict(ramp()[:, ::-1], tta=True)
    np.testing.assert_allclose(both.depth, again.depth[:, ::-1], rtol=1e-4)


def test_without_spread_of_its_own_an_engine_has_that_of_the_mirror() -> None:
    model = Predictor(Brightness(spread=None))
    assert model.predict(ramp()).spread is None
    result = model.predict(ramp(), tta=True)
    assert result.spread is not None
    np.testing.assert_allclose(result.spread, 0, atol=1e-6)
    assert result.facts["spread"].startswith(
        "standard deviation of the network's answers for the picture and its mirror image"
    )


# Tiles and normals


def test_large_pictures_are_refined_in_tiles(engine: Brightness) -> None:
    image = ramp(200, 300)
    model = Predictor(engine)
    plain, tiled = model.predict(image), model.predict(image, tile=(64, 64))
    assert tiled.facts["tiles"] == "24 of 64x64, aligned to the whole picture"
    exact = 1 + image[..., 0] / 100
    assert np.abs(tiled.depth - exact).mean() <= np.abs(plain.depth - exact).mean()
    np.testing.assert_allclose(tiled.depth, exact, rtol=0.05)
    assert tiled.spread is not None
    chosen = model.predict(image, tile=True)
    assert int(chosen.facts["tiles"].split()[0]) <= 16
    small = model.predict(picture(), tile=True)
    assert small.facts["tiles"].startswith("1 of 48x64")


def test_normals_come_from_depth_when_asked_for(engine: Brightness) -> None:
    model = Predictor(engine)
    assert model.predict(picture()).normals is None
    result = model.predict(picture(), normals=True)
    assert result.normals is not None
    np.testing.assert_allclose(result.normals, np.broadcast_to([0, 0, -1], (48, 64, 3)), atol=1e-6)
    assert result.facts["normals"] == "from depth and camera"


def test_a_network_for_normals_gives_unit_normals_and_no_depth(engine: Brightness) -> None:
    engine.task = "normals"
    image = np.zeros((48, 64, 3), np.uint8)
    image[..., 0], image[..., 2] = 60, 80
    result = Predictor(engine).predict(image)
    assert result.normals is not None
    np.testing.assert_allclose(result.normals[5, 5], [0.6, 0, 0.8], atol=1e-6)
    assert np.isnan(result.depth).all()
    assert result.spread is None
    mirrored = Predictor(engine).predict(image, tta=True).normals
    assert mirrored is not None
    np.testing.assert_allclose(mirrored[5, 5], [0, 0, 1], atol=1e-6)  # x of both cancels
    with pytest.raises(InputError, match="brightness predicts normals, no depth; tiles"):
        Predictor(engine).predict(image, tile=True)
