"""A model as it ships: a card, a graph that puts brightness at metres, and weights."""

from tests.fakes import onnx_files

from idisc import configs, files
from idisc.configs.schema import ModelConfig
from idisc.zoo import cards


def make(model, *, checkpoint=None, default=False):
    """depth = 0.5 m + brightness / 50; the files are called like `model`. Returns the card.

    The weights are those of a checkpoint folder, or nothing that can be opened.
    """
    model.parent.mkdir(parents=True, exist_ok=True)
    graph = onnx_files.depth_of_brightness(model.with_suffix(".onnx"))
    weights, network = model.with_suffix(".safetensors"), ModelConfig()
    weights.write_bytes(b"no tensors")
    if checkpoint:
        weights.write_bytes((checkpoint / "model.safetensors").read_bytes())
        record = files.read_json(checkpoint / configs.FILE)["model"]
        network = configs.from_json(ModelConfig, record, "model")
    card = cards.ModelCard(
        name=model.name,
        title="Brightness as depth",
        licence="Apache-2.0",
        domain="indoor",
        depth_range=(0.5, 5.6),
        training_size=(48, 64),
        training_fov_deg=60.0,
        parameters=0.01,
        model=network,
        weights=(weights.name,),
        ingredients=(
            cards.Ingredient(
                name="Rendered rooms", role="pictures and depth", licence="Apache-2.0"
            ),
            cards.Ingredient(
                name="ImageNet-1k weights",
                role="encoder",
                licence="BSD-3-Clause",
                source="https://example.org/weights",
            ),
        ),
        scores=(
            cards.Score(
                dataset="NYU-Depth v2", protocol="bts", metric="d1", value=0.81, low=0.8, high=0.82
            ),
            cards.Score(dataset="NYU-Depth v2", protocol="bts", metric="rmse", value=0.5),
        ),
        files=cards.describe([graph, weights]),
        default=default,
        notes="Knows nothing of the world.",
    )
    path = model.with_suffix(".json")
    cards.write_card(path, card)
    return path
