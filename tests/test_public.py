"""The public face: what `idisc` exports, what it loads, what it says when torch is not there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import idisc
from idisc.cli.main import COMMANDS

HEAVY = ["torch", "torchvision", "timm", "numba", "scipy", "rich", "matplotlib", "onnxruntime"]
HEAVY += ["cmap", *(["numpy.ma"] if version("numpy") >= "2" else [])]  # numpy 1 loads it itself
BLOCK = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=900, check=False
    )


def loaded_by(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after running `code`."""
    report = f"\nimport json, sys\nprint(json.dumps([p for p in {HEAVY} if p in sys.modules]))"
    done = run(code + report)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def call(*arguments: str, code: int = 0) -> str:
    return (
        "from idisc.cli.main import main\n"
        f"try:\n    main({list(arguments)!r})\n"
        f"except SystemExit as end:\n    assert end.code == {code}"
    )


def refused_calls(calls: list[list[str]]) -> str:
    return "\n".join(call(*arguments, code=2) for arguments in calls)


def test_every_public_name_resolves() -> None:
    assert all(getattr(idisc, name) is not None for name in idisc.__all__)
    assert dir(idisc) == sorted(idisc.__all__)


def test_the_reference_lists_the_public_names() -> None:
    page = Path(__file__).parents[1] / "docs/reference/python.md"
    (line,) = (row for row in page.read_text().splitlines() if row.startswith("Public names:"))
    assert set(re.findall(r"`(\w+)`", line)) == set(idisc.__all__)


def test_the_public_names_are_these() -> None:
    errors = {"IdiscError", "InputError", "DataError", "CheckpointError", "MissingExtra"}
    assert set(idisc.__all__) == errors | {
        *("load", "load_network", "Predictor", "Prediction", "Camera", "IDisc", "ModelConfig"),
        *("RECIPES", "evaluate", "explain", "CheckFailed", "__version__"),
    }
    assert callable(idisc.evaluate.evaluate)
    assert callable(idisc.explain.explain)


@pytest.mark.parametrize("name", ["load_netwrok", "_nothing"])
def test_an_unknown_attribute_is_an_attribute_error(name: str) -> None:
    for module in (idisc, idisc.evaluate, idisc.explain):
        with pytest.raises(AttributeError, match=name):
            getattr(module, name)


def test_names_tables_and_help_load_nothing_heavy() -> None:
    codes = [
        "import idisc; idisc.IdiscError, idisc.load, idisc.Camera, idisc.Prediction",
        "idisc.Predictor, idisc.RECIPES, idisc.ModelConfig, idisc.evaluate, idisc.explain",
        "import idisc.configs.paper, idisc.files, idisc.zoo.published, idisc.zoo.cards",
        "idisc.zoo.cards.shipped()",
        *(call(*each) for each in (["--help"], ["--version"], ["convert", "--list"])),
        *(call(name, "--help") for name in ("convert", "bench", "predict", "serve", "explain")),
    ]
    assert loaded_by("\n".join(codes)) == set()


def test_a_photo_in_the_default_formats_loads_one_heavy_package(tmp_path: Path) -> None:
    photo = Path(idisc.__file__).parent / "assets" / "examples" / "bedroom.jpg"
    assert loaded_by(call("predict", str(photo), "-o", str(tmp_path))) == {"onnxruntime"}


def test_a_network_on_swin_loads_no_timm() -> None:
    code = "import torch, idisc.model.network, idisc.configs.recipes\n"
    code += (
        "with torch.device('meta'): idisc.model.network.IDisc(idisc.configs.schema.ModelConfig())"
    )
    assert loaded_by(code) == {"torch"}


def test_load_network_without_torch_says_what_to_install() -> None:
    done = run(BLOCK.format(packages={"torch"}) + "import idisc\nidisc.load_network")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "idisc.errors.MissingExtra: torch: not installed; run: pip install 'idisc[train]'"
    )


def test_a_command_without_torch_says_so_in_one_line() -> None:
    calls = [
        ["bench", "nyu_swint"],
        ["convert", "weights.pt", "--out", "never"],
        ["export", "never"],
        ["train", "nyu_swint", "--data", "never", "--out", "never"],
    ]
    done = run(BLOCK.format(packages={"torch", "safetensors"}) + refused_calls(calls))
    line = "idisc: torch: not installed; run: pip install 'idisc[train]'"
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (0, "", [line] * len(calls))


def test_help_and_lists_work_without_any_heavy_package() -> None:
    calls = [["--help"], *([name, "--help"] for name in COMMANDS), ["convert", "--list"]]
    code = "\nprint('next')\n".join(call(*arguments) for arguments in calls)
    done = run(BLOCK.format(packages=set(HEAVY)) + code)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(text.strip() for text in done.stdout.split("next\n"))


def test_the_first_error_of_a_command_needs_no_torch() -> None:
    calls = {
        "bench nyu_swnt": "did you mean nyu_swint",
        "bench nyu_swint --size wide": "'wide' is not a size",
        "convert": "FILE and --out are needed (or --list)",
        "predict none.jpg": "none.jpg: no such file",
        "explain none.jpg -o never": "none.jpg: no such file",
    }
    code = refused_calls([each.split() for each in calls])
    done = run(BLOCK.format(packages=set(HEAVY)) + code)
    assert done.returncode == 0, done.stderr
    for line, message in zip(done.stderr.splitlines(), calls.values(), strict=True):
        assert message in line
