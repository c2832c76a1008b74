"""The public face: what `idisc` exports, what it loads, what it says when torch is not there."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.fakes.called import BLOCK, fresh

import idisc
from idisc.cli.main import COMMANDS

HEAVY = ["torch", "torchvision", "timm", "numba", "scipy", "rich", "matplotlib", "onnxruntime"]
HEAVY += ["cmap", *(["numpy.ma"] if version("numpy") >= "2" else [])]  # numpy 1 loads it itself


def loaded_by(code):
    """The heavy packages that a fresh interpreter has loaded after running `code`."""
    report = f"\nimport json, sys\nprint(json.dumps([p for p in {HEAVY} if p in sys.modules]))"
    done = fresh(code + report)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def call(*arguments, code=0):
    return (
        "from idisc.cli.main import main\n"
        f"try:\n    main({list(arguments)!r})\n"
        f"except SystemExit as end:\n    assert end.code == {code}"
    )


def refused_calls(calls):
    return "\n".join(call(*arguments, code=2) for arguments in calls)


def test_every_public_name_resolves():
    assert all(getattr(idisc, name) is not None for name in idisc.__all__)
    assert dir(idisc) == sorted(idisc.__all__)


def test_the_reference_lists_the_public_names():
    page = Path(__file__).parents[1] / "docs/reference/python.md"
    (line,) = (row for row in page.read_text().splitlines() if row.startswith("Public names:"))
    assert set(re.findall(r"`(\w+)`", line)) == set(idisc.__all__)


def test_the_public_names_are_these():
    errors = {"IdiscError", "InputError", "DataError", "CheckpointError", "MissingExtra"}
    assert set(idisc.__all__) == errors | {
        *("load", "load_network", "Predictor", "Prediction", "Camera", "IDisc", "ModelConfig"),
        *("RECIPES", "evaluate", "explain", "CheckFailed", "__version__"),
    }
    assert callable(idisc.evaluate.evaluate)
    assert callable(idisc.explain.explain)


@pytest.mark.parametrize("name", ["load_netwrok", "_nothing"])
def test_an_unknown_attribute_is_an_attribute_error(name):
    for module in (idisc, idisc.evaluate, idisc.explain):
        with pytest.raises(AttributeError, match=name):
            getattr(module, name)


def test_names_tables_and_help_load_nothing_heavy():
    codes = [
        "import idisc; idisc.IdiscError, idisc.load, idisc.Camera, idisc.Prediction",
        "idisc.Predictor, idisc.RECIPES, idisc.ModelConfig, idisc.evaluate, idisc.explain",
        "import idisc.configs.paper, idisc.files, idisc.zoo.published, idisc.zoo.cards",
        "idisc.zoo.cards.shipped()",
        *(call(*each) for each in (["--help"], ["--version"], ["convert", "--list"])),
        *(call(name, "--help") for name in ("convert", "bench", "predict", "serve", "explain")),
    ]
    assert loaded_by("\n".join(codes)) == set()


def test_a_photo_in_the_default_formats_loads_one_heavy_package(tmp_path):
    photo = Path(idisc.__file__).parent / "assets" / "examples" / "bedroom.jpg"
    assert loaded_by(call("predict", str(photo), "-o", str(tmp_path))) == {"onnxruntime"}


def test_a_server_of_a_shipped_model_opens_it_without_torch():
    assert "torch" not in loaded_by("from idisc.serve import explorer; explorer.open_network()")


def test_a_network_on_swin_loads_no_timm():
    code = "import torch, idisc.model.network, idisc.configs.recipes\n"
    code += (
        "with torch.device('meta'): idisc.model.network.IDisc(idisc.configs.schema.ModelConfig())"
    )
    assert loaded_by(code) == {"torch"}


def test_without_torch_commands_and_load_network_say_what_to_install_in_one_line():
    calls = [
        ["bench", "nyu_swint"],
        ["convert", "weights.pt", "--out", "never"],
        ["export", "never"],
        ["train", "nyu_swint", "--data", "never", "--out", "never"],
    ]
    code = f"{refused_calls(calls)}\nimport idisc\nidisc.load_network"
    done = fresh(BLOCK.format(packages={"torch", "safetensors"}) + code)
    line = "torch: not installed; run: pip install 'idisc[train]'"
    *said, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert said[: len(calls)] == [f"idisc: {line}"] * len(calls)
    assert last == f"idisc.errors.MissingExtra: {line}"


def test_help_and_lists_work_without_any_heavy_package():
    calls = [["--help"], *([name, "--help"] for name in COMMANDS), ["convert", "--list"]]
    code = "\nprint('next')\n".join(call(*arguments) for arguments in calls)
    done = fresh(BLOCK.format(packages=set(HEAVY)) + code)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(text.strip() for text in done.stdout.split("next\n"))


def test_the_first_error_of_a_command_needs_no_torch():
    calls = {
        "bench nyu_swnt": "did you mean nyu_swint",
        "bench nyu_swint --size wide": "'wide' is not a size",
        "convert": "FILE and --out are needed (or --list)",
        "predict none.jpg": "none.jpg: no such file",
        "explain none.jpg -o never": "none.jpg: no such file",
    }
    code = refused_calls([each.split() for each in calls])
    done = fresh(BLOCK.format(packages=set(HEAVY)) + code)
    assert done.returncode == 0, done.stderr
    for line, message in zip(done.stderr.splitlines(), calls.values(), strict=True):
        assert message in line
