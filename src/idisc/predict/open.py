"""Opens a network by path or name: a checkpoint folder, an .onnx file or a shipped model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from idisc import configs, files
from idisc.configs.recipes import RECIPES
from idisc.configs.schema import Precision
from idisc.errors import CheckpointError, InputError, nearest, require
from idisc.predict.convention_choice import choose_convention, hub_type
from idisc.predict.engine import Engine
from idisc.zoo import cards
from idisc.zoo.published import PUBLISHED

MAX_UNOPTIMIZED = 8  # pictures: for these, optimizing a graph takes longer than it saves


def open_model(
    model: str | Path | None = None,
    device: str = "cpu",
    precision: Precision | None = None,
    *,
    part: cards.Part = "onnx",
    convention: str | None = None,
    pictures: int | None = None,
) -> Engine:
    """Open a checkpoint folder, an .onnx file or a shipped model by name; None: the default model.

    `convention` names how to run a third-party network whose convention cannot be detected.
    `pictures` is the number of pictures to predict, if it is known: for a few, a shipped model is
    opened quickly and runs 5 % slower; several share the cores with reading and writing.

    `precision` is that of the arithmetic, by default fp32; an .onnx file has its own. `part` is
    what is opened of a shipped model: its ONNX file, or its checkpoint for torch.
    """
    card = find_card(model)
    if card:
        _refuse_convention(convention, f"{card.name} is a model of this package")
    path = cards.locate(card, part) if card else Path(str(model))
    if path.suffix == ".onnx":
        engine = _open_onnx(path, device, card, convention, pictures)
        own = engine.origin.get("precision")
        if precision not in (None, own):
            raise InputError(
                f"--precision {precision}",
                f"{path.name} computes {f'with {own}' if own else 'as exported'}",
                "`idisc export --precision` makes another file",
            )
        return engine
    if hub_type(path) is not None:
        from idisc.predict.transformers_engine import open_transformers

        if precision not in (None, "fp32"):
            raise InputError(f"--precision {precision}", "a model of transformers computes in fp32")
        return open_transformers(path, device, convention)
    _refuse_convention(convention, "it is for .onnx files and models of transformers")
    if not card:
        _check_checkpoint(path)
    require("torch", "timm", "safetensors", extra="train")
    from idisc.predict.torch_engine import TorchEngine

    return TorchEngine.load(path, device, precision or "fp32", card)


def find_card(model: str | Path | None) -> cards.ModelCard | None:
    """Return the card of a shipped model by name, None for a path; no name is the default model.

    An existing file or checkpoint folder takes precedence over a name.
    """
    if model is None:
        return cards.default_card()
    path = Path(model)
    if path.is_file() or (path / configs.FILE).is_file() or path.suffix == ".onnx":
        return None
    known = cards.shipped()
    if str(model) not in known:
        if path.is_dir():
            return None
        raise CheckpointError(model, *_advice(str(model), known))
    return known[str(model)]


def _advice(model: str, shipped: Mapping[str, object]) -> tuple[str, str]:
    """Return reason and remedy for a name that cannot be opened."""
    published = [each.file for each in PUBLISHED.values() if model in (each.file, *each.recipes)]
    if published:
        file = published[0]
        return "its weights are not included", (
            f"`idisc models {file}` says where to get them, then run `idisc convert {file} --out"
            f" {Path(file).stem}`"
        )
    if model in RECIPES:
        return "a recipe, not a checkpoint", f"`idisc train {model}` makes a checkpoint"
    if not shipped:
        return "no such file or folder", "name a checkpoint folder or an .onnx file"
    return "no such file, folder or shipped model", nearest(model, shipped)


def network_of(engine: Engine) -> Any:
    """Return the torch module of an engine; InputError if it has none with IDRs."""
    network, card = getattr(engine, "network", None), getattr(engine, "card", None)
    if network is None and card is not None:
        network = getattr(open_model(card.name, part="checkpoint"), "network", None)
    if network is None:
        raise InputError(
            engine.name,
            "an exported file gives depth and no more",
            "name the checkpoint folder it was made from",
        )
    kind = network.config.discretization
    if kind != "isd":
        raise InputError(engine.name, f"a network with discretization={kind} has no IDRs")
    return network


def _refuse_convention(convention: str | None, reason: str) -> None:
    if convention:
        raise InputError(f"--convention {convention}", reason, "leave it out")


def _check_checkpoint(path: Path) -> None:
    if not path.is_dir():
        foreign = path.suffix in (".pt2", ".xml")
        remedy = "`idisc export` makes an .onnx file for this program" if foreign else ""
        raise CheckpointError(path, "neither a checkpoint folder nor an .onnx file", remedy)
    if not (path / configs.FILE).is_file():
        reason = f"no {configs.FILE} in it, so not a checkpoint folder"
        raise CheckpointError(path, reason, "`idisc convert` makes one")


def _open_onnx(
    path: Path,
    device: str,
    card: cards.ModelCard | None,
    convention: str | None,
    pictures: int | None,
) -> Engine:
    """Open an export of this package, or a third-party file by its convention."""
    from idisc.predict.onnx_engine import OnnxEngine, is_ours
    from idisc.predict.onnx_session import Optimization, open_session

    optimization: Optimization = "all"
    beside = card or cards.beside(path)  # first, because it names a file that is missing
    if card:  # its graph has fused operators
        few = pictures is not None and pictures <= MAX_UNOPTIMIZED and device == "cpu"
        optimization = "none" if few else "basic"
    spinning = card is None or pictures in (None, 1)
    opened = open_session(path, device, optimization=optimization, spinning=spinning)
    if not is_ours(opened.session):
        from idisc.predict.convention_engine import ConventionEngine, OnnxNetwork

        network = OnnxNetwork(opened.session)
        chosen = choose_convention(path, network.graph, convention)
        return ConventionEngine(path.name, files.sha256(path), chosen, network)
    _refuse_convention(convention, f"{path.name} is an export of this package")
    return OnnxEngine(path, device, card=beside, opened=opened)
