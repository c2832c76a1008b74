"""Put a trained checkpoint into the package as a shipped model.

    idisc train indoor ... --out run
    python docs/examples/ship_model.py pack run/best indoor
    idisc evaluate --weights indoor --data nyu_labelled --out report
    python docs/examples/ship_model.py score indoor report/report.json

`mean` writes a checkpoint with the mean of the weights of two checkpoints. The second one continued
from the first with other shares of the data; the mean keeps most of the strengths of both:

    python docs/examples/ship_model.py mean first/last second/last mean

`pack` writes the weights in fp16 (the encoder once for all models), the ONNX graph that refers to
them, and the card of CARDS below; scores are kept if the weights have not changed. `score` adds the
numbers of a report to the card; a report of other weights is refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from idisc import configs, files
from idisc.ancestry import read_ancestry
from idisc.cli.main import run_script
from idisc.export import external, onnx, parity
from idisc.model.checkpoint import load_network, read_config, read_origin, save_checkpoint
from idisc.model.network import IDisc
from idisc.model.states import read_state, write_state
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.torch_engine import TorchEngine
from idisc.zoo import cards

ENCODER = "dinov2_vits14.safetensors"
SHARED = "encoder.vit."
SCORES = ("d1", "abs_rel", "rmse", "d2", "d3", "log10", "silog")
SCORES += ("mean_deg", "median_deg", "rmse_deg", "a11.25", "a22.5", "a30")

DINOV2 = cards.Ingredient(
    name="DINOv2 ViT-S/14",
    role="the encoder, frozen",
    licence="Apache-2.0",
    source="https://github.com/facebookresearch/dinov2",
)
NYU = cards.Ingredient(
    name="NYU-Depth v2, labelled set",
    role="images and depth for training",
    licence="published for research, no licence text",
    source="https://cs.nyu.edu/~fergus/datasets/nyu_depth_v2.html",
)
NYU_RAW = replace(NYU, name="NYU-Depth v2, 352 raw frames", role="images and 8-bit depth")
OTHER_ROOMS = (
    cards.Ingredient(
        name="Replica, 499 rendered views of a flat and an office",
        role="images and exact depth",
        licence="research only (Straub et al. 2019)",
        source="https://github.com/facebookresearch/Replica-Dataset",
    ),
    cards.Ingredient(
        name="595 frames of Kinect, Xtion and RealSense recordings (a robot's run, labs, offices,"
        " desks)",
        role="images and sensor depth",
        licence="none stated by the public mirrors they come from",
    ),
)
ROADS = (
    cards.Ingredient(
        name="KITTI, 418 frames",
        role="images and LiDAR depth",
        licence="CC BY-NC-SA 3.0",
        source="https://www.cvlibs.net/datasets/kitti",
    ),
    cards.Ingredient(
        name="DDAD, 27 frames",
        role="images and LiDAR depth",
        licence="CC BY-NC-SA 4.0",
        source="https://github.com/TRI-ML/DDAD",
    ),
    cards.Ingredient(
        name="166 rendered street scenes of a game, with simulated LiDAR",
        role="images and depth",
        licence="none stated",
    ),
    cards.Ingredient(
        name="View of Delft, 3 frames",
        role="images and LiDAR depth",
        licence="research only",
        source="https://intelligent-vehicles.org/datasets/view-of-delft",
    ),
)
START = cards.Ingredient(
    name="the model `indoor`, with all of its ingredients",
    role="weights that training started from",
    licence="Apache-2.0; trained in part on data published for research only",
)
CARDS = {
    "indoor": {
        "title": "metric depth of rooms, desks and corridors",
        "licence": "Apache-2.0; trained in part on data published for research only",
        "ingredients": (DINOV2, NYU, NYU_RAW, *OTHER_ROOMS),
        "default": True,
        "notes": "For rooms and desks from 0.5 m to 10 m. Metres depend on the field of view: they"
        " are corrected for a camera that is known and are less certain without one. Not for"
        " streets or landscapes. Mirrors, windows and screens mislead it.",
    },
    "indoor_normals": {
        "title": "surface normals of rooms, desks and corridors",
        "licence": "Apache-2.0; trained in part on data published for research only",
        "ingredients": (DINOV2, NYU, OTHER_ROOMS[0], START),
        "notes": "For rooms and desks. Learned from planes fitted to depth, so small and thin"
        " things are smoothed over. Not for streets or landscapes.",
    },
    "road": {
        "title": "metric depth of streets, seen from a car",
        "licence": "for non-commercial use, as the data it was trained on (CC BY-NC-SA)",
        "non_commercial": True,
        "domain": "road",
        "depth_range": (0.5, 80.0),
        "ingredients": (DINOV2, *ROADS, START),
        "notes": "For streets from a camera at the height of a car, to 80 m. LiDAR sees neither the"
        " sky nor what is higher than a van: the sky was marked as far in training, other depth up"
        " there is a guess. Not for rooms.",
    },
}


def halved(value: Tensor) -> Tensor:
    """Weights in fp16; counters stay integers."""
    return value.half() if value.is_floating_point() else value


def _holds(path: Path, tensors: dict[str, Tensor]) -> bool:
    """Whether a file has just these tensors."""
    if not path.is_file():
        return False
    stored = read_state(path)
    return stored.keys() == tensors.keys() and all(
        torch.equal(stored[name], value) for name, value in tensors.items()
    )


def average(first: Path, second: Path, out: Path) -> None:
    """Write a checkpoint with the mean of the weights of two; the rest is that of the second."""
    tensors, others = (load_network(path).state_dict() for path in (second, first))
    for name, value in tensors.items():
        if value.is_floating_point():
            tensors[name] = (value + others[name]) / 2
    save_checkpoint(out, read_config(second), tensors, read_origin(second))


def pack(checkpoint: Path, name: str) -> None:
    """Write weights, graph and card of a model into the package."""
    model, about = read_config(checkpoint), CARDS[name]
    stated = {field: about[field] for field in ("domain", "depth_range") if field in about}
    origin = {**read_origin(checkpoint), **stated}  # own folders do not say their domain
    parents = tuple(  # not the runs between, which nobody has
        each for each in read_ancestry(origin, name).parents if each.name in cards.shipped()
    )
    origin["parents"] = [configs.to_json(each) for each in parents]
    state = {key: halved(value) for key, value in load_network(checkpoint).state_dict().items()}
    shared = {key: value for key, value in state.items() if key.startswith(SHARED)}
    own = {key: value for key, value in state.items() if not key.startswith(SHARED)}
    cards.HOME.mkdir(exist_ok=True)
    weights = [cards.HOME / ENCODER, cards.HOME / f"{name}.safetensors"]
    changed = [
        (path, tensors)
        for path, tensors in zip(weights, (shared, own), strict=True)
        if not _holds(path, tensors)  # the encoder is stored once and keeps its bytes
    ]
    for path, tensors in changed:
        with files.atomic(path) as draft:
            write_state(draft, tensors)
    former = None if changed else cards.shipped().get(name)

    network = IDisc(model)
    stored = {key: value for path in weights for key, value in read_state(path).items()}
    network.load_state_dict(stored)  # widens them; -0.0 and 0.0 are as in the shared file
    network.eval()
    engine = TorchEngine(network, name, files.sha256(*weights), origin)
    graph = onnx.build(network, keep_weights=True)
    external.store_half(graph, weights)
    onnx.add_metadata(graph, {**onnx.metadata(engine), "precision": "fp32", "storage": "fp16"})
    onnx.save(graph, cards.HOME / f"{name}.onnx")
    height, width = origin["training_size"]
    size = (height, width)
    measured = parity.measure(
        OnnxEngine(cards.HOME / f"{name}.onnx"),
        engine,
        parity.read_evenly(parity.list_pictures(parity.EXAMPLES), 4),
        parity.two_sizes(size),
        precision="fp16-weights",
        pictures_from="examples",
    )
    measured.check(f"{name}.onnx")

    parameters = sum(parameter.numel() for parameter in network.parameters())
    facts = {
        "name": name,
        "domain": origin["domain"],
        "depth_range": tuple(origin["depth_range"]),
        "training_size": size,
        "training_fov_deg": origin.get("training_fov_deg"),
        "canonical": bool(origin.get("canonical")),
        "non_commercial": bool(origin.get("non_commercial")),
        "parents": parents,
        "parameters": round(parameters / 1e6, 1),
        "model": model,
        "weights": tuple(path.name for path in weights),
        "files": cards.describe([*weights, cards.HOME / f"{name}.onnx"]),
        "scores": former.scores if former else (),  # the same weights have the same scores
    }
    card = cards.ModelCard(**{**facts, **about})
    cards.write_card(cards.HOME / f"{name}.json", card)
    sys.stdout.write(f"{cards.HOME / name}.json: {card.bytes / 1e6:.1f} MB, {measured.to_json()}\n")


def score(name: str, path: Path, dataset: str | None) -> None:
    """Put the numbers of a report of `idisc evaluate --out` into the card.

    `dataset` names a folder of one's own, which a report cannot.
    """
    report, card = json.loads(path.read_text()), cards.shipped()[name]
    known = {files.sha256(cards.HOME / f"{name}.onnx")}
    if report["about"]["weights_sha256"] not in known:
        sys.exit(f"{path}: not a report of the shipped {name}; evaluate that one")
    scores = [
        cards.Score(
            dataset=dataset or report["dataset"]["name"],
            protocol=report["protocol"]["name"],
            metric=metric,
            value=report["totals"][metric],
            low=report["intervals"][metric][0],
            high=report["intervals"][metric][1],
        )
        for metric in SCORES
        if metric in report["totals"]
    ]
    cards.write_card(cards.HOME / f"{name}.json", replace(card, scores=tuple(scores)))


def main() -> None:
    """Pack a checkpoint into the package, or add scores to its card."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("checkpoint", type=Path)
    packing.add_argument("name", choices=sorted(CARDS))
    averaging = commands.add_parser("mean")
    for name in ("first", "second", "out"):
        averaging.add_argument(name, type=Path)
    scoring = commands.add_parser("score")
    scoring.add_argument("name", choices=sorted(CARDS))
    scoring.add_argument("report", type=Path)
    scoring.add_argument("--dataset", metavar="NAME", help="what the pictures of a folder are")
    given = parser.parse_args()
    if given.command == "pack":
        pack(given.checkpoint, given.name)
    elif given.command == "mean":
        average(given.first, given.second, given.out)
    else:
        score(given.name, given.report, given.dataset)


if __name__ == "__main__":
    run_script(main)
