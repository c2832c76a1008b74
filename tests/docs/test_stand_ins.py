"""Commands of the pages that need data or networks of a user are run with small ones.

A folder holds a file or folder for each name that the pages use: raw datasets of a few frames,
prepared ones, tiny networks, photos. Numbers that only take time are reduced. What would take long
even so is run by the file that `ELSEWHERE` names.
"""

import contextlib
import importlib.util
import itertools
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.docs.test_commands import EXAMPLES, PAGES, ROOT, Command, name_of, plain_commands
from tests.fakes import exported, hub_models, indoor, onnx_files, pairs, road, scored
from tests.fakes.called import run
from tests.fakes.films import room, write_clip
from tests.golden import store

from idisc import RECIPES, configs
from idisc.evaluate.protocols import PROTOCOLS
from idisc.explain import grid
from idisc.export import onnx as onnx_export
from idisc.export import parity

if importlib.util.find_spec("uvicorn"):
    import uvicorn

    startup = uvicorn.Server.startup


async def start_and_end(server, sockets):
    """Start a server as usual, and end it before the first request."""
    await startup(server, sockets)
    server.should_exit = True


TINY = {**pairs.CHANGES, "train.iterations": 1, "train.batch_size": 1}
SMALLER = {  # numbers that cost time, and what they are here
    r"count=\d+": "count=4",
    r"size=\d+x\d+": "size=48x64",
    r"iterations=\d{2,}": "iterations=2",
    r"--workers \d+": "--workers 1",
    r"--raw \S+": "--raw raw",
    r"--data RAW": "--data raw/nyu",
    r"evaluate \.\.\.": "evaluate --weights CHECKPOINT --data nyu",
    r"synthetic --out rooms$": "synthetic --out rooms --set count=4 --set size=48x64",
    r"(train tiny_synthetic .*)": r"\1 --set train.iterations=2 --set data.size=48x64 --workers 0",
    r"--data normals ": "--data nyu ",  # pictures of the right size
    r"(train nyu\S+)( --weights imagenet)?( --data .*)": r"\1\3 --workers 0 "
    + " ".join(f"--set {name}={value}" for name, value in TINY.items()),
    r"(train nyu_swint --weights .*)": r"\1 --set data.size=48x64 --workers 0",
    r"bench MODEL.onnx": "bench MODEL.onnx --size 30x40 --repeats 1",
    r"explain kitchen.jpg bedroom.jpg (.*)": r"explain few/0.png few/1.png \1 --level 0",
    r"export (.* )--size \S+": r"export \1--size 96x128",
    r"export ((?!.*--pictures).*)": r"export \1 --pictures few",
    r"export (.*)--pictures photos/": r"export \1--pictures few",
    r"export (nyu_swint|tuned/best -o mine.onnx)": "export CHECKPOINT",
    r"convert \S+ --out \S+": "convert nyu_swintiny.pt --out converted",  # the others are small
    r"serve ": "serve --port 0 ",
    r"relative.onnx room.jpg": "relative.onnx near_below.png",
    r"evaluate --weights (road|indoor|MODEL) ": "evaluate --weights MODEL.onnx ",
    r"--weights indoor_normals": "--weights NORMALS.onnx",
}
REFUSED = (  # the page shows the error
    "predict --weights model.onnx bedroom.jpg",
    "predict --weights relative.onnx bedroom.jpg -o out --save ply",
)
FORM = r"\b(DATASET|SOURCE|RECIPE|PICTURE|DIR|OTHER_ROOMS|PHOTO)\b"
ELSEWHERE = {  # which file runs such commands
    r".* --cluster": "tests/cluster/test_job.py",  # for this, Ray is needed
    r"bench nyu_swint": "tests/cli/test_bench.py",
    r"demo": "tests/cli/test_demo.py",
    r"train indoor.*dinov2_vits14": "tests/model/test_backbones.py",  # weights from a file
    r"train (indoor|road)": "docs/notebooks/finetune.ipynb",
}


def elsewhere(command):
    """The file that runs a command; None if it is run here."""
    line = " ".join(command.words)
    return next((path for start, path in ELSEWHERE.items() if re.match(start, line)), None)


def is_form(command):
    """Whether words in capitals have to be replaced."""
    return re.search(FORM, re.sub(r"--raw \S+", "", " ".join(command.words)))


RUN = {
    name_of(page): [
        command
        for command in plain_commands(page)
        if not is_form(command) and elsewhere(command) is None
    ]
    for page in PAGES
}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """The folder with everything that the pages name."""
    pytest.importorskip("torch", reason="checkpoints need the extra train")
    pytest.importorskip("h5py", reason="raw data need the extra data")
    folder = tmp_path_factory.mktemp("pages")
    with contextlib.chdir(folder):
        _raw_data()
        _networks()
        _photos()
        for name in ("nyu", "nyu_labelled", "kitti"):
            assert run("prepare", name, "--raw", f"raw/{name}", "--out", name) == 0
        Path("road0009").symlink_to("kitti")
        Path("taskonomy").symlink_to("nyu_labelled")
        few = ("--set", "count=4", "--set", "size=48x64")
        assert run("prepare", "synthetic", "--out", "rooms", *few) == 0
        scored.a_tenth_too_far(Path("nyu_labelled"), "nyu_labelled", Path("predictions"))
        for name in ("nyu", "kitti"):
            scored.a_tenth_too_far(Path(name), name, Path("THEIRS"))
        pairs.make(Path("mine"), test=1)
        indoor.save(
            Path("depth_selection/test_depth_prediction_anonymous/image/0000000000.png"),
            indoor.picture(0, (352, 1216)),
        )
    return folder


def _raw_data():
    indoor.nyu(Path("raw/nyu"), {"sync/kitchen_0001": 1, "test/bathroom": 1}, indoor.VGA)
    for split, scene in (("train", "sync/kitchen_0001"), ("test", "test/bathroom")):
        line = f"{scene}/rgb_00000.jpg {scene}/sync_depth_00000.png 518.8579\n"
        Path(f"nyu_{split}.txt").write_text(line)
    indoor.nyu_plain(Path("raw/nyu_labelled"))
    indoor.nyu_normals(Path("raw/nyu_normals"))
    indoor.diode(Path("raw/diode"))
    indoor.sunrgbd(Path("raw/sunrgbd"))
    kinect = "SUNRGBD/kv1/b3dodata/img_0063"
    line = f"{kinect}/image/img_0063.jpg {kinect}/depth/img_0063_abs.png"
    Path("sunrgbd_val.txt").write_text(line)
    drives = ("2011_09_26_drive_0001_sync", "2011_09_26_drive_0002_sync")
    road.kitti(Path("raw/kitti"), Path("raw/kitti"), drives, frames=1)
    for split, drive in zip(("train", "test"), drives, strict=True):
        Path(f"kitti_eigen_{split}.txt").write_text(road.kitti_line(drive, 0))
    road.argoverse(Path("raw/argoverse"), sweeps=1)
    for split, log in (("train", "log-a"), ("val", "log-b")):
        Path(f"argo_{split}.txt").write_text(f"rgb/{log}/ring_front_center/0.png depth.png")
    road.ddad(Path("raw/ddad"), samples=1)
    for split, scene in (("train", "000000"), ("val", "000150")):
        line = f"{scene}/rgb/CAMERA_01/{road.DDAD_FIRST}.png depth.png"
        Path(f"ddad_{split}.txt").write_text(line)


def _networks():
    for name in (
        "CHECKPOINT",
        "nyu_swint",
        "nyu_swint_checkpoint",
        "nyu_swinl",
        "run/best",
        "tuned/best",
    ):
        exported.save_network(Path(name))
    for name in ("MODEL.onnx", "mine.onnx"):
        onnx_files.depth_of_brightness(Path(name))
    onnx_files.normals_of_colour(Path("NORMALS.onnx"))
    for name in ("their.onnx", "fastdepth.onnx"):
        onnx_files.foreign(Path(name))
    for name in ("model.onnx", "relative.onnx", "depth_anything_v2_vits.onnx"):
        shape = (1, 3, "height", "width")
        onnx_files.foreign(Path(name), ("pixel_values", "predicted_depth"), shape)
    Path("relative.json").write_text('{"like": "depth-anything-v2"}')
    released = store.Case(store.HERE, "cases", "nyu_swint_117x150").weights()
    tensors = {name: torch.as_tensor(value) for name, value in released.items()}
    torch.save(tensors, "nyu_swintiny.pt")
    if importlib.util.find_spec("transformers"):
        hub_models.depth_anything().save(Path("Depth-Anything-V2-Small-hf"))


def _photos():
    for folder in ("photos", "trip"):
        Path(folder).mkdir()
    for name in ("room", "photo", "bedroom", "kitchen", "photos/kitchen", "trip/a"):
        shutil.copy(EXAMPLES / "living_room.jpg", f"{name}.jpg")
    shutil.copy(EXAMPLES / "street.jpg", "photos")
    for index in range(2):
        indoor.save(Path(f"few/{index}.png"), indoor.picture(index, exported.SIZE))
    indoor.save(Path("frame.jpg"), indoor.picture(0, indoor.VGA))
    shades = np.linspace(20, 220, 480).astype(np.uint8)[:, None]  # near is light, and below
    Image.fromarray(np.broadcast_to(shades, (480, 640))).save("near_below.png")
    # The viewer offers a file of this name with the record of a rescaled prediction.
    Path("room_scale.json").symlink_to("room_depth16.json")
    if importlib.util.find_spec("av"):
        write_clip(Path("clip.mp4"), [room(0, (96, 128))] * 2)


@pytest.fixture
def quick(monkeypatch):
    """Figures are coarse, a server ends as soon as it has started, the same graph is exported."""
    monkeypatch.setattr(grid, "DPI", 30)
    exported.any_size()  # made before its maker is replaced
    monkeypatch.setattr(onnx_export, "build", lambda *_, **__: exported.model())
    lenient = dict.fromkeys(parity.TOLERANCES, parity.Tolerance(mean=9.0, d1=0.0))
    monkeypatch.setattr(parity, "TOLERANCES", lenient)  # the weights are random
    if importlib.util.find_spec("uvicorn"):
        monkeypatch.setattr(uvicorn.Server, "startup", start_and_end)


NEEDS = {"clip.mp4": "av", "Depth-Anything-V2-Small-hf": "transformers", "serve": "uvicorn"}
_ran: set[tuple[str, ...]] = set()  # in all pages, as many have the same commands


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, commands in RUN.items() if commands])
def test_the_commands_of_a_page_run_on_small_data(page, workshop, quick, monkeypatch, capsysbinary):
    monkeypatch.chdir(workshop)
    for command in RUN[page]:
        packages = [package for word, package in NEEDS.items() if word in command.words]
        words = tuple(_reduced(command))
        if words in _ran or not all(map(importlib.util.find_spec, packages)):
            continue
        _ran.add(words)
        if "--out" in words:  # these commands make new folders
            shutil.rmtree(words[words.index("--out") + 1], ignore_errors=True)
        expected = 2 if " ".join(command.words) in REFUSED else 0
        with contextlib.ExitStack() as files:
            if "-" in words:
                monkeypatch.setattr(sys, "stdin", files.enter_context(Path("room.jpg").open()))
            assert run(*words) == expected, (words, capsysbinary.readouterr().err)


def _reduced(command):
    line = " ".join(shlex.quote(word) for word in command.words)
    for pattern, other in SMALLER.items():
        line = re.sub(pattern, other, line)
    words = Command(command.page, f"idisc {line}").words
    if words[0] == "prepare" and "--raw" in words:
        words[words.index("--raw") + 1] = f"raw/{words[1]}"
    return words


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_fields_of_recipes_and_protocols_exist_and_accept_the_values(page):
    """Also those of commands that take hours."""
    for command in plain_commands(page):
        name, *words = command.words
        changes = [word for flag, word in itertools.pairwise(words) if flag == "--set"]
        if name == "train" and words[0] in RECIPES:
            configs.override(RECIPES[words[0]], changes)
        if name == "evaluate":
            configs.override(PROTOCOLS["paper"], changes)


def test_most_commands_are_run_and_every_exception_is_needed():
    commands = [command for page in PAGES for command in plain_commands(page)]
    lines = [" ".join(command.words) for command in commands if not is_form(command)]
    assert sum(map(len, RUN.values())) > 90
    assert [start for start in ELSEWHERE if not any(re.match(start, line) for line in lines)] == []
    assert [path for path in ELSEWHERE.values() if not (ROOT / path).exists()] == []
