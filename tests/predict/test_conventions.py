"""Networks of others: which convention a file has, and what becomes of its numbers."""

import json

import numpy as np
import pytest
from PIL import Image
from tests.fakes import onnx_files
from tests.fakes.refusals import refused

from idisc.camera import Camera
from idisc.errors import CheckpointError, IdiscWarning, InputError
from idisc.predict.convention_choice import Graph, matching_conventions, read_hub_folder
from idisc.predict.convention_engine import ConventionEngine
from idisc.predict.conventions import CONVENTIONS, IMAGENET_MEAN, IMAGENET_STD, Convention
from idisc.predict.predictor import Predictor, load
from idisc.sizes import Sizing

ANY = (1, 3, None, None)
DEPTH_ANYTHING = [f"depth-anything-v2{kind}" for kind in ("", "-indoor", "-outdoor")]
HUB = ("pixel_values", "predicted_depth")


def ramp(height=60, width=80):
    """Lighter from left to right."""
    shades = np.linspace(20, 220, width).astype(np.uint8)
    return np.broadcast_to(shades[None, :, None], (height, width, 3)).copy()


class Mean:
    """A network that answers with the mean of its colours, and keeps what it was fed."""

    def __init__(self, *names):
        self.graph = Graph(inputs=dict.fromkeys(names, ANY), outputs={"out": ANY})
        self.fed = {}

    def __call__(self, feeds, names):
        self.fed = dict(feeds)
        values = feeds[next(iter(self.graph.inputs))]
        return dict.fromkeys(names, values.mean(axis=1, keepdims=True))


def predictor(rule, *names):
    network = Mean(*(names or ("in",)))
    return Predictor(ConventionEngine("theirs", "00", rule, network)), network


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ({"0": (1, 3, 224, 224)}, ["350"], ["fastdepth"]),
        ({"pixel_values": (1, 3, 384, 384)}, ["predicted_depth"], ["dpt"]),
        ({"pixel_values": (1, 3, 384, 512)}, ["predicted_depth"], ["zoedepth"]),
        ({"image": (1, 3, 518, 518)}, ["depth"], DEPTH_ANYTHING),
        ({"pixel_values": ANY}, ["predicted_depth", "field_of_view"], ["depth-pro"]),
        ({"pixel_values": ANY}, ["predicted_depth"], [*DEPTH_ANYTHING, "dpt", "zoedepth", "glpn"]),
        ({"tokens": (1, 77)}, ["text"], []),
    ],
)
def test_a_graph_is_recognised_by_its_names_and_shapes(inputs, outputs, expected):
    graph = Graph(inputs=inputs, outputs=dict.fromkeys(outputs, ANY))
    assert matching_conventions(graph) == expected


def test_the_picture_goes_in_and_metres_come_out(tmp_path):
    model = load(onnx_files.foreign(tmp_path / "theirs.onnx"))
    found = model.predict(ramp())
    assert (model.model.convention, found.unit) == ("fastdepth", "metre")
    np.testing.assert_allclose(found.metres, ramp()[..., 0] / 255, atol=0.01)


def test_a_graph_that_fits_no_convention_or_several_is_refused_with_the_names(tmp_path):
    unknown = onnx_files.foreign(tmp_path / "unknown.onnx", ("x", "y"), (1, 3, 100, 100))
    with refused(CheckpointError, unknown, *CONVENTIONS, "unknown.json"):
        load(unknown)
    several = onnx_files.foreign(tmp_path / "several.onnx", HUB, (1, 3, "H", "W"))
    with refused(CheckpointError, several, "dpt, zoedepth, glpn"):
        load(several)
    assert load(several, convention="dpt").model.unit == "relative"
    assert load(onnx_files.describe(several, convention="glpn")).model.convention == "glpn"


def test_a_card_beside_the_file_describes_any_other_network(tmp_path):
    path = onnx_files.foreign(tmp_path / "own.onnx", ("x", "y"), (1, 40, 60, 3), axis=3)
    card = {
        "layout": "nhwc",
        "colours": "bgr",
        "mean": [0.5, 0.5, 0.5],
        "std": [0.25, 0.25, 0.25],
        "sizing": {"kind": "stretch", "size": [40, 60]},
        "output": "log_depth",
    }
    (tmp_path / "own.json").write_text(json.dumps(card))
    found = load(path).predict(ramp())
    expected = np.exp((ramp()[..., 0] / 255 - 0.5) / 0.25)
    np.testing.assert_allclose(found.metres[:, 5:-5], expected[:, 5:-5], rtol=0.05)
    (tmp_path / "own.json").write_text(json.dumps({**card, "output": "feet"}))
    with refused(InputError, f"{tmp_path / 'own.json'}: output"):
        load(path)
    (tmp_path / "own.json").write_text(json.dumps({"like": "dpt", "layout": "nhwc"}))
    assert load(path).model.unit == "relative"


def test_relative_depth_has_no_metres_until_two_distances_are_known(tmp_path):
    rule = Convention(sizing=Sizing(kind="own"), output="disparity")
    model, _ = predictor(rule)
    found = model.predict(ramp())
    np.testing.assert_allclose(1 / found.depth_values, ramp()[..., 0] / 255, rtol=1e-4)
    for refusing in (lambda: found.metres, lambda: found.measure((0, 0), (9, 9))):
        with refused(InputError, "theirs", "relative", "two"):
            refusing()
    with pytest.raises(InputError):
        found.save(tmp_path, "ply", name="a")
    found.save(tmp_path, "png,png16,npy,html", name="a")
    record = json.loads((tmp_path / "a_depth16.json").read_text())
    assert record["unit"] == "relative"
    assert "metres_per_unit" not in record
    stored = np.asarray(Image.open(tmp_path / "a_depth16.png")) * record["inverse_per_unit"]
    np.testing.assert_allclose(stored, 1 / found.depth_values, rtol=1e-3)
    with pytest.raises(InputError):
        found.rescaled("5,10 5,50 = 1m")
    known = ["70,10 70,50 = 1m", "10,10 10,50 = 4m"]
    metric = found.rescaled(known)
    assert metric.unit == "metre"
    assert metric.measure((70, 10), (70, 50)) == pytest.approx(1, rel=1e-3)
    assert metric.measure((10, 10), (10, 50)) == pytest.approx(4, rel=1e-3)
    assert model.predict(ramp(), known_distance=known).unit == "metre"


def test_relative_tiles_are_aligned_by_scale_and_shift():
    rule = Convention(sizing=Sizing(kind="own"), output="disparity")
    model, network = predictor(rule)
    plain = model.predict(ramp(120, 160)).depth_values
    original = network.__class__.__call__

    def shifted(feeds, names):
        """Another scale and shift for each size of the picture."""
        found = original(network, feeds, names)
        factor = 1.0 if next(iter(feeds.values())).shape[-1] == 160 else 3.0
        return {name: factor * values + (factor - 1) for name, values in found.items()}

    model.engine._network = shifted
    shifted.graph = network.graph
    tiled = model.predict(ramp(120, 160), tile=(60, 80))
    assert tiled.unit == "relative"
    np.testing.assert_allclose(tiled.depth_values, plain, rtol=0.02)


SEEN, FOCAL = (60, 90), 100.0  # of a picture and its camera
PEERS = {  # size of the network, its convention, and the normalisation outside of the graph
    "midas": ((384, 384), "midas", (0.0, 255.0)),
    "metric3d": ((616, 1064), "metric3d", (0.0, 1.0)),
    "metric3d, hub": ((616, 1064), "metric3d", (0.0, 1.0)),
    "unidepth": ((462, 630), "unidepth", (IMAGENET_MEAN, IMAGENET_STD)),
    "unidepth-matrix": ((462, 616), "unidepth-matrix", (IMAGENET_MEAN, IMAGENET_STD)),
}


@pytest.mark.parametrize("name", PEERS)
def test_published_inputs_and_outputs_are_prepared_and_converted(name, tmp_path):
    """Every colour has a weight of its own, so a wrong order or normalisation is seen."""
    size, convention, (mean, std) = PEERS[name]
    rows, columns = np.mgrid[: SEEN[0], : SEEN[1]]
    image = np.stack([40 + 2 * columns, 60 + 3 * rows, 200 - rows - columns], axis=-1)
    colours = image / 255 if "unidepth" in name else image
    generator = np.random.default_rng(0)
    weights, bias = generator.uniform(0.1, 0.6, 3), 2.0
    answer = (colours - mean) / np.array(std) @ weights + bias
    scale = min(size[0] / SEEN[0], size[1] / SEEN[1])  # bars fill the rest
    x, y = (columns - (SEEN[1] - 1) / 2) / FOCAL, (rows - (SEEN[0] - 1) / 2) / FOCAL
    expected = (
        answer
        * {
            "midas": 1.0,
            "metric3d": FOCAL * scale / 1000,
            "unidepth": 1 / np.sqrt(1 + x**2 + y**2),
            "unidepth-matrix": FOCAL * scale / 100,
        }[convention]
    )
    model = load(onnx_files.published(tmp_path / "a.onnx", name, size, weights.tolist(), bias))
    camera = Camera.from_focal(FOCAL, SEEN, "test")
    found = model.predict(image.astype(np.uint8), camera=camera)
    assert model.model.convention == convention
    assert found.unit == ("relative" if name == "midas" else "metre")
    values = 1 / found.depth_values if name == "midas" else found.metres
    inner = np.s_[2:-2, 2:-2]  # beside a bar, its colour is mixed in
    np.testing.assert_allclose(values[inner], expected[inner], rtol=0.02)


def test_an_assumed_camera_is_a_warning_if_depth_depends_on_it(tmp_path):
    path = onnx_files.published(tmp_path / "a.onnx", "metric3d", (616, 1064), [0.1, 0.1, 0.1], 1.0)
    with pytest.warns(IdiscWarning):
        assumed = load(path).predict(ramp())
    assert [each.code for each in assumed.provenance.warnings] == ["camera_assumed"]


def test_a_folder_of_transformers_states_its_convention(tmp_path):
    config = {"model_type": "depth_anything", "depth_estimation_type": "metric", "max_depth": 80}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"size": {"height": 256, "width": 256}, "keep_aspect_ratio": False})
    )
    found = read_hub_folder(tmp_path)
    assert (found.name, found.sizing.size) == ("depth-anything-v2-outdoor", (256, 256))
    for damaged in ({"image_mean": True, "image_std": [1]}, {"rescale_factor": "x"}):
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(damaged))
        with refused(CheckpointError, tmp_path / "preprocessor_config.json"):
            read_hub_folder(tmp_path)
