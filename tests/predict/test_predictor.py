"""Predictor: the right size, camera and scale around any engine, and facts that say so."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import ExifTags, Image
from tests.fakes import onnx_files, pairs

import idisc
from idisc.camera import Camera
from idisc.data.dataset import open_dataset
from idisc.errors import CheckpointError, IdiscWarning, InputError
from idisc.evaluate.run import EnginePredictor
from idisc.images import Photo, resize_map
from idisc.model.checkpoint import save_checkpoint
from idisc.model.network import IDisc
from idisc.predict.engine import ModelFacts, origin_of_data
from idisc.predict.predictor import Predictor, adapted
from idisc.zoo import cards

Maps = NDArray[np.float32]
FACTS: dict[str, Any] = {
    "domain": "indoor",
    "depth_range": [0.01, 10],
    "training_size": [48, 64],
    "training_fov_deg": 60.0,
    "data": "rooms",
    "licence": "CC0",
}


class Brightness:
    """An engine that takes the red byte for depth, metres = 1 + red / 100, and keeps its calls."""

    name, sha256 = "brightness", "0123456789abcdef"
    fixed_size: tuple[int, int] | None = None

    def __init__(self, origin: Mapping[str, Any] | None = None, spread: float | None = 0.1) -> None:
        self.origin: Mapping[str, Any] = FACTS if origin is None else origin
        self.spread = spread
        self.task: Literal["depth", "normals"] = "depth"
        self.calls: list[tuple[tuple[int, ...], tuple[int, int] | None]] = []

    def __call__(self, images: NDArray[np.uint8], size: tuple[int, int] | None = None) -> Maps:
        return self.with_spread(images, size)[0]

    def with_spread(
        self, images: NDArray[np.uint8], size: tuple[int, int] | None = None
    ) -> tuple[Maps, Maps | None]:
        self.calls.append((images.shape, size))
        height, width = size or (images.shape[1], images.shape[2])
        if self.task == "normals":
            raw = np.stack([resize_map(each / np.float32(255), (height, width)) for each in images])
            return raw, None
        red = 1 + images[..., 0].astype(np.float32) / 100
        depth = np.stack([resize_map(each, (height, width)) for each in red])
        return depth, None if self.spread is None else np.full_like(depth, self.spread)


def picture(height: int = 48, width: int = 64, shade: int = 100) -> NDArray[np.uint8]:
    return np.full((height, width, 3), shade, np.uint8)


def ramp(height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    shades = np.linspace(0, 200, width).astype(np.uint8)
    return np.broadcast_to(shades[None, :, None], (height, width, 3)).copy()


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


def test_a_file_for_one_size_gets_that_size(engine: Brightness) -> None:
    engine.fixed_size = (40, 40)
    with pytest.warns(IdiscWarning, match=r"96x128 squeezed into 40x40, .* a file for any size"):
        result = Predictor(engine).predict(picture(96, 128))
    assert engine.calls == [((1, 40, 40, 3), (96, 128))]
    assert result.facts["network size"] == "40x40, the only one of this file"
    with pytest.raises(InputError, match=r"^size 48x64: brightness is for 40x40 alone; leave it"):
        Predictor(engine).predict(picture(), size=(48, 64))


def test_the_usual_size_is_taken_when_training_is_unknown() -> None:
    engine = Brightness(origin={})
    result = Predictor(engine).predict(picture(200, 200))
    assert engine.calls[0][0] == (1, 544, 544, 3)
    expected = "544x544: 480x640 (usual) in the shape of the picture"
    assert result.facts["network size"] == expected


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


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: not there"):
        idisc.load(tmp_path / "nowhere")


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
    expected = resize_map(np.std(levels, axis=0), (48, 64))
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


# The camera


def jpeg(focal_35mm: int) -> bytes:
    exif = Image.Exif()
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.FocalLengthIn35mmFilm] = focal_35mm
    stream = io.BytesIO()
    Image.fromarray(picture()).save(stream, format="JPEG", exif=exif)
    return stream.getvalue()


def test_the_camera_is_given_read_or_assumed(engine: Brightness) -> None:
    model = Predictor(engine)
    assert model.predict(picture()).camera.origin == "assumed 60 deg"
    assert model.predict(picture()).facts["camera"] == "assumed 60 deg"
    assert model.predict(jpeg(30)).facts["camera"] == "EXIF 30 mm (60 deg across)"
    given = Camera.from_focal(60.0, (48, 64), "calibration")
    assert model.predict(jpeg(30), camera=given).camera == given

    def wide(size: tuple[int, int]) -> Camera:
        return Camera.from_fov(62.0, size, "given 62 deg")

    results = model.predict([picture(), picture(96, 128)], camera=wide)
    assert [result.camera.size for result in results] == [(48, 64), (96, 128)]
    assert results[0].facts["camera"] == "given 62 deg"


def test_a_camera_of_another_shape_is_named_with_its_picture(engine: Brightness) -> None:
    given = Camera.from_focal(60.0, (64, 48), "calibration")
    with pytest.raises(InputError, match=r"^array: a camera for 64x48 with a picture of 48x64"):
        Predictor(engine).predict(picture(), camera=given)


@pytest.mark.parametrize(("fov_deg", "far"), [(60, False), (66, False), (76, True), (45, True)])
def test_a_camera_unlike_training_is_warned_of(
    engine: Brightness, fov_deg: float, far: bool
) -> None:
    camera = Camera.from_fov(fov_deg, (48, 64), "given")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = Predictor(engine).predict(picture(), camera=camera)
    assert ("warning" in result.facts) == far
    assert [item.category for item in caught] == [IdiscWarning] * far
    if far:
        expected = f"field of view {fov_deg} deg across, 60 deg in training: true depth may be "
        assert result.facts["warning"].startswith(expected)


def test_an_assumed_camera_and_an_unknown_training_warn_of_nothing(engine: Brightness) -> None:
    camera = Camera.from_fov(120.0, (48, 64), "given")
    assert "warning" not in Predictor(Brightness(origin={})).predict(picture(), camera=camera).facts
    kitti = Brightness(origin={**FACTS, "training_fov_deg": 100.0})
    assert "warning" not in Predictor(kitti).predict(picture()).facts


def test_an_upright_photo_of_the_training_camera_is_like_training(engine: Brightness) -> None:
    training = Camera.from_fov(60.0, (48, 64), "training")
    upright = Camera.from_focal(training.fx, (64, 48), "given")
    assert "warning" not in Predictor(engine).predict(picture(64, 48), camera=upright).facts


def test_depth_is_corrected_for_another_focal_length(engine: Brightness) -> None:
    model = Predictor(engine)
    training = Camera.from_fov(60.0, (48, 64), "training")
    for factor in (0.5, 2.0):
        camera = Camera.from_focal(training.fx * factor, (48, 64), "given")
        result = model.predict(picture(), camera=camera, rescale_to_training_camera=True)
        np.testing.assert_allclose(result.depth, 2.0 * factor, rtol=1e-5)
        assert result.spread is not None
        np.testing.assert_allclose(result.spread, 0.1 * factor, rtol=1e-5)
        expected = f"depth x {factor:g}, focal length over that of training (60 deg)"
        assert result.facts["rescaled"] == expected
    larger = model.predict(
        picture(96, 128), camera=camera.resized((96, 128)), rescale_to_training_camera=True
    )
    np.testing.assert_allclose(larger.depth, 4.0, rtol=1e-5)  # at equal width, whatever the size


def test_what_is_not_known_cannot_be_corrected_for(engine: Brightness) -> None:
    with pytest.raises(InputError, match=r"^array: the camera is assumed 60 deg, so depth cannot"):
        Predictor(engine).predict(picture(), rescale_to_training_camera=True)
    unknown = Predictor(Brightness(origin={}))
    with pytest.raises(InputError, match=r"brightness does not say with which field of view"):
        unknown.predict(jpeg(30), rescale_to_training_camera=True)


# A known distance, tiles, normals


@pytest.mark.parametrize("known", ["10,20 50,20 = 2.40m", ((10, 20), (50, 20), 2.4)])
def test_a_known_distance_rescales_the_scene(engine: Brightness, known: object) -> None:
    result = Predictor(engine).predict(picture(), known=known)
    points = result.points
    assert np.linalg.norm(points[20, 50] - points[20, 10]) == pytest.approx(2.4, rel=1e-5)
    assert result.facts["rescaled"].startswith("depth x ")
    assert "known 10,20 50,20 = 2.4 m, predicted" in result.facts["rescaled"]


def test_a_wrong_known_distance_is_an_error_before_anything_runs(engine: Brightness) -> None:
    with pytest.raises(InputError, match=r"write it as 'x1,y1 x2,y2 = 2\.40m'"):
        Predictor(engine).predict(picture(), known="10,20 = 2m")
    assert engine.calls == []
    with pytest.raises(InputError, match=r"^array: point 70,20: outside of a picture 64 pixels"):
        Predictor(engine).predict(picture(), known="10,20 70,20 = 2m")


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


# What is known of a model


def test_every_result_says_which_model_and_for_what(engine: Brightness) -> None:
    facts = Predictor(engine).predict(Photo(picture(), "room.jpg")).facts
    assert facts == {
        "picture": "room.jpg",
        "model": "brightness (sha256 0123456789ab)",
        "domain": "indoor",
        "range": "0.01 to 10 m in training",
        "camera": "assumed 60 deg",
        "network size": "48x64, as in training",
        "trained on": "rooms",
        "licence of weights": "CC0",
        "spread": facts["spread"],
    }
    unknown = Predictor(Brightness(origin={})).predict(picture()).facts
    names = ("domain", "range", "trained on", "licence of weights")
    assert [unknown[name] for name in names] == ["unknown"] * 4


@pytest.mark.parametrize(
    "origin",
    [
        {"depth_range": "0.01,10", "training_size": "48x64", "training_fov_deg": "60.0"},
        {"depth_range": "[0.01, 10.0]", "training_size": "[48, 64]", "training_fov_deg": "60"},
        FACTS,
    ],
)
def test_facts_are_read_as_json_and_as_the_text_of_onnx(origin: dict[str, Any]) -> None:
    facts = ModelFacts.of(Brightness(origin=origin))
    assert facts.depth_range == (0.01, 10.0)
    assert facts.training_size == (48, 64)
    assert facts.training_fov_deg == 60.0


@pytest.mark.parametrize("size", ["wide", [480], "480x640x3", "0x0", {"a": 1}])
def test_facts_that_make_no_sense_are_named(size: object) -> None:
    with pytest.raises(CheckpointError, match=r"^brightness: training_size is .* in its record$"):
        ModelFacts.of(Brightness(origin={"training_size": size}))


def test_an_exported_file_says_what_it_is_and_how_sure(tmp_path: Path) -> None:
    path = onnx_files.depth_and_spread(tmp_path / "small.onnx")
    onnx_files.describe(path, domain="road", training_size="32x64", licence="CC0")
    model = idisc.load(path)
    assert (model.facts.domain, model.facts.licence) == ("road", "CC0")
    assert model.network_size((64, 128)) == (32, 64)
    grey = np.full((64, 128, 3), 100, np.uint8)  # 2 m
    result = model.predict(grey)
    assert result.spread is not None
    np.testing.assert_allclose(result.spread, 0.2, rtol=1e-6)
    np.testing.assert_allclose(model.engine(grey[None]), 2.0)


def test_a_file_for_one_size_is_recognised(tmp_path: Path) -> None:
    model = idisc.load(onnx_files.for_one_size(tmp_path / "one.onnx"))
    assert model.engine.fixed_size == (8, 8)
    size = model.predict(picture(30, 30)).facts["network size"]
    assert size == "8x8, the only one of this file"
    with pytest.raises(CheckpointError, match=r"^one\.onnx: is for pictures of 8x8 alone, not of"):
        model.engine(picture()[None])


def test_a_published_file_is_known_by_its_name() -> None:
    origin = {"file": "kitti_swintiny.pt", "licence": "CC BY-NC 4.0"}
    facts = ModelFacts.of(Brightness(origin=origin))
    assert (facts.domain, facts.training_size) == ("road", (352, 1216))
    assert facts.depth_range == (0.01, 80.0)
    assert facts.training_fov_deg == pytest.approx(80.2, abs=0.1)  # 1216 of 1242 columns
    assert facts.licence == "CC BY-NC 4.0"


@pytest.mark.parametrize(
    ("name", "fov_deg"), [("nyu", 63.3), ("diode", 60.0), ("sunrgbd", None), ("folder", None)]
)
def test_a_dataset_says_what_its_networks_know(name: str, fov_deg: float | None) -> None:
    found = origin_of_data(name, (480, 640)).get("training_fov_deg")
    assert found == (fov_deg and pytest.approx(fov_deg, abs=0.15))


# What a user may expect to be told


def test_a_size_that_no_memory_holds_is_refused(engine: Brightness) -> None:
    message = r"^size 5000x5000: more than 8\.4 million pixels in the network; choose a smaller"
    with pytest.raises(InputError, match=message):
        Predictor(engine).predict(picture(), size=(5000, 5000))
    assert engine.calls == []


def test_pictures_at_a_large_size_go_one_by_one(engine: Brightness) -> None:
    with pytest.warns(IdiscWarning, match="size 1536x2048, 48x64 in training, which moves metres"):
        Predictor(engine).predict([picture(), picture()], size=(1536, 2048))
    assert [call[0][0] for call in engine.calls] == [1, 1]


def test_a_squeezed_picture_is_warned_of(engine: Brightness) -> None:
    wide = Brightness(origin={**FACTS, "training_size": [480, 640]})
    message = "sees 720x1280 squeezed into 480x640, .*; 416x736, or no size at all, keeps it"
    with pytest.warns(IdiscWarning, match=message):
        result = Predictor(wide).predict(picture(720, 1280), size=(480, 640))
    assert "squeezed into 480x640" in result.facts["warning"]
    for size in ((416, 736), None):
        assert "warning" not in Predictor(wide).predict(picture(720, 1280), size=size).facts


def test_a_warning_has_the_field_of_view_that_was_given(engine: Brightness) -> None:
    with pytest.warns(IdiscWarning, match=r"field of view 20 deg across, 67 deg in training for"):
        result = Predictor(engine).predict(
            picture(72, 128), camera=lambda size: Camera.from_fov(20, size)
        )
    assert result.facts["camera"] == "given 20 deg"
    like = Camera.from_fov(67, (72, 128))  # the number it names is one that it does not warn of
    assert "warning" not in Predictor(engine).predict(picture(72, 128), camera=like).facts


def test_a_matrix_is_a_camera(engine: Brightness) -> None:
    matrix = np.array([[55.0, 0, 31.5], [0, 55.0, 23.5], [0, 0, 1]])
    for numbers in (matrix, matrix.tolist()):
        result = Predictor(engine).predict(picture(), camera=numbers)
        assert (result.camera.fx, result.camera.origin) == (55.0, "given matrix")
    with pytest.raises(InputError, match=r"^array: camera matrix: cx 31\.5, cy 23\.5 are outside"):
        Predictor(engine).predict(picture(20, 24), camera=matrix)
    assert len(engine.calls) == 2  # the third was refused before any work
    with pytest.warns(IdiscWarning, match=r"cx 31\.5, cy 23\.5 are far from the middle of a pic"):
        Predictor(Brightness(origin={})).predict(picture(36, 48), camera=matrix)


def test_a_known_distance_is_of_one_picture(engine: Brightness) -> None:
    with pytest.raises(InputError, match="known distance: its points are pixels of one picture"):
        Predictor(engine).predict([picture(), picture()], known="1,2 30,4 = 1m")
    (one,) = Predictor(engine).predict([ramp()], known="1,2 30,4 = 1m")
    assert "rescaled" in one.facts


def test_pictures_without_a_name_do_not_share_one_in_a_list(engine: Brightness) -> None:
    results = Predictor(engine).predict([picture(), jpeg(30), picture()])
    assert [result.facts["picture"] for result in results] == ["array_1", "bytes_2", "array_3"]
    assert Predictor(engine).predict(picture()).facts["picture"] == "array"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("nyu_swint", r"its weights do not ship: `idisc models nyu_swintiny\.pt` says where"),
        ("nyu_swintiny.pt", r"`idisc convert nyu_swintiny\.pt --out nyu_swintiny`"),
        ("tiny_synthetic", "tiny_synthetic is a recipe, `idisc train tiny_synthetic` makes"),
        ("nowhere", "; name a checkpoint folder or an .onnx file"),
    ],
)
def test_a_model_that_does_not_ship_is_told_how_to_get(
    name: str, advice: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cards, "HOME", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=rf"^{name}: not there.*{advice}"):
        idisc.load(name)


def test_a_folder_of_photos_is_no_model_and_needs_no_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CheckpointError, match=r"no config\.json in it, so not a checkpoint"):
        idisc.load(tmp_path)
