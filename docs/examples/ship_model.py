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
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from idisc import configs, files
from idisc.ancestry import Parent, read_ancestry
from idisc.cli.main import run_script
from idisc.export import external, onnx, parity
from idisc.model.checkpoint import load_network, read_config, read_origin, save_checkpoint
from idisc.model.network import IDisc
from idisc.model.states import read_state, write_state
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.torch_engine import TorchEngine
from idisc.sizes import Size
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
        "ingredients": (DINOV2, NYU, OTHER_ROOMS[0]),
        "notes": "For rooms and desks. Learned from planes fitted to depth, so small and thin"
        " things are smoothed over. Not for streets or landscapes.",
    },
    "road": {
        "title": "metric depth of streets, seen from a car",
        "licence": "for non-commercial use, as the data it was trained on (CC BY-NC-SA)",
        "non_commercial": True,
        "domain": "road",
        "depth_range": (0.5, 80.0),
        "ingredients": (DINOV2, *ROADS),
        "notes": "For streets from a camera at the height of a car, to 80 m. LiDAR sees neither the"
        " sky nor what is higher than a van: the sky was marked as far in training, other depth up"
        " there is a guess. Not for rooms.",
    },
}


def average(first: Path, second: Path, out: Path) -> None:
    """Write a checkpoint with the mean of the weights of two; the rest is that of the second."""
    tensors, others = (load_network(path).state_dict() for path in (second, first))
    for name, value in tensors.items():
        if value.is_floating_point():
            tensors[name] = (value + others[name]) / 2
    save_checkpoint(out, read_config(second), tensors, read_origin(second))


def pack(checkpoint: Path, name: str) -> None:
    """Write weights, graph and card of a model into the package."""
    about = CARDS[name]
    stated = {field: about[field] for field in ("domain", "depth_range") if field in about}
    origin = {**read_origin(checkpoint), **stated}  # own folders do not say their domain
    known = read_ancestry(origin, name)
    shipped = cards.shipped()
    parents = tuple(each for each in known.parents if each.name in shipped)  # others are not public
    ingredients = join_ingredients(name, parents)
    origin["data"] = [ingredient.name for ingredient in ingredients]
    origin["parents"] = [configs.to_json(parent) for parent in parents]

    weights = [cards.HOME / ENCODER, cards.HOME / f"{name}.safetensors"]
    changed = write_weights(load_network(checkpoint).state_dict(), *weights)
    network = IDisc(read_config(checkpoint)).eval()
    stored = {key: value for path in weights for key, value in read_state(path).items()}
    network.load_state_dict(stored)  # converts them to fp32
    graph = cards.HOME / f"{name}.onnx"
    engine = TorchEngine(network, name, files.sha256(*weights), origin)
    measured = write_graph(engine, graph, weights, known.training_size)

    facts = {
        "domain": known.domain,
        "depth_range": known.depth_range,
        "training_size": known.training_size,
        "training_fov_deg": known.training_fov_deg,
        "canonical": known.canonical,
        "non_commercial": known.non_commercial,
        "parents": parents,
        "parameters": round(sum(value.numel() for value in network.parameters()) / 1e6, 1),
        "model": network.config,
        "weights": tuple(path.name for path in weights),
        "files": cards.describe([*weights, graph]),
        "scores": shipped[name].scores if name in shipped and not changed else (),
    }
    card = cards.ModelCard(name=name, **{**facts, **about, "ingredients": ingredients})
    cards.write_card(cards.HOME / f"{name}.json", card)
    sys.stdout.write(f"{cards.HOME / name}.json: {card.bytes / 1e6:.1f} MB, {measured.to_json()}\n")


def join_ingredients(name: str, parents: Sequence[Parent]) -> tuple[cards.Ingredient, ...]:
    """Return the ingredients of a model and of the other models it was trained from, each once."""
    found = {ingredient.name: ingredient for ingredient in CARDS[name]["ingredients"]}
    others = dict.fromkeys(parent.name for parent in parents if parent.name != name)
    for parent in others:
        card = cards.shipped()[parent]
        model = cards.Ingredient(
            name=f"the model `{parent}`",
            role="weights that training started from",
            licence=card.licence,
        )
        found.setdefault(model.name, model)
        for ingredient in card.ingredients:
            role = f"{ingredient.role}, through `{parent}`"
            found.setdefault(ingredient.name, replace(ingredient, role=role))
    return tuple(found.values())


def write_weights(state: dict[str, Tensor], shared_path: Path, own_path: Path) -> bool:
    """Write the shared encoder and the rest in fp16; return whether the files changed.

    A file that has the same tensors already keeps its bytes.
    """
    state = {
        key: value.half() if value.is_floating_point() else value for key, value in state.items()
    }
    shared = {key: value for key, value in state.items() if key.startswith(SHARED)}
    own = {key: value for key, value in state.items() if not key.startswith(SHARED)}
    changed = False
    for path, tensors in ((shared_path, shared), (own_path, own)):
        stored = read_state(path) if path.is_file() else {}
        if stored.keys() != tensors.keys() or any(
            not torch.equal(stored[key], value) for key, value in tensors.items()
        ):
            changed = True
            with files.atomic(path) as draft:
                write_state(draft, tensors)
    return changed


def write_graph(engine: TorchEngine, path: Path, weights: list[Path], size: Size) -> parity.Parity:
    """Write the ONNX graph that refers to the weights, and compare it with the network."""
    graph = onnx.build(engine.network, keep_weights=True)
    external.store_half(graph, weights)
    onnx.add_metadata(graph, {**onnx.metadata(engine), "precision": "fp32", "storage": "fp16"})
    onnx.save(graph, path)
    measured = parity.measure(
        OnnxEngine(path),
        engine,
        parity.read_evenly(parity.list_pictures(parity.EXAMPLES), 4),
        parity.two_sizes(size),
        precision="fp16-weights",
    )
    measured.check(path.name)
    return measured


def score(name: str, path: Path, dataset: str | None) -> None:
    """Put the numbers of a report of `idisc evaluate --out` into the card.

    `dataset` names a folder of one's own, which a report cannot.
    """
    report, card = json.loads(path.read_text()), cards.shipped()[name]
    if report["about"]["weights_sha256"] != files.sha256(cards.HOME / f"{name}.onnx"):
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
