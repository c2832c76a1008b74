"""Commands of the pages that need data or networks of a user are run with small ones.

A folder holds a file or folder for each name that the pages use: raw datasets of a few frames,
prepared ones, tiny networks, photos. Numbers that only take time are reduced. What is not run has
its reason in `NOT_RUN`.
"""

import contextlib
import importlib.util
import re
import shutil
from pathlib import Path

import pytest
from tests.docs.test_commands import EXAMPLES, PAGES, Command, name_of, plain_commands
from tests.fakes import exported, indoor, onnx_files, pairs, road, scored
from tests.fakes.called import run
from tests.fakes.films import room, write_clip

SMALLER = {  # numbers that cost time, and what they are here
    r"count=\d+": "count=4",
    r"size=\d+x\d+": "size=48x64",
    r"--raw \S+": "--raw raw",
    r"--data RAW": "--data raw/nyu",
    r"\.\.\.": "--weights CHECKPOINT --data nyu",
    r"synthetic --out rooms$": "synthetic --out rooms --set count=4 --set size=48x64",
    r"(tiny_synthetic .*)": r"\1 --set train.iterations=2 --set data.size=48x64 --workers 0",
}
REFUSED = (  # the page shows the error
    "predict --weights model.onnx bedroom.jpg",
    "predict --weights relative.onnx bedroom.jpg -o out --save ply",
)
FORM = r"\b(DATASET|SOURCE|RECIPE|PICTURE|DIR|OTHER_ROOMS|PHOTO)\b"
NOT_RUN = {
    r".* --cluster": "needs Ray; tests/cluster runs all kinds of jobs",
    r"prepare (argoverse|ddad)": "seconds for each scene; tests/data/prepare runs them",
    r"bench ": "measures for minutes; tests/cli/test_bench.py runs small networks",
    r"convert ": "needs a published file; tests/cli/test_convert.py makes one like it",
    r"demo": "tests/cli/test_demo.py runs it",
    r"explain ": "draws for half a minute; tests/cli/test_explain.py runs these options",
    r"export ": "traces for half a minute; tests/cli/test_export.py runs these options",
    r"serve ": "runs until it is stopped; tests/serve",
    r"predict -$": "the shell opens the files; tests/cli/test_predict.py",
    r"predict --weights Depth-Anything": "tests/predict/test_transformers.py makes such folders",
    r"predict --weights relative.onnx room.jpg": "a random network; see test_conventions.py",
    r"train .*(imagenet|dinov2_vits14|nyu_swinl|nyu_swint_)": "a download, or hours on a GPU",
    r"train indoor(_normals)? --weights indoor": "the notebook and test_launch.py train such",
}
WHOLE_PAGES = {"docs/results.md": "measures on data that nobody may pass on; minutes to hours"}


def reason(command):
    """Why a command is not run; None if it is."""
    line = " ".join(command.words)
    if command.page in WHOLE_PAGES:
        return WHOLE_PAGES[command.page]
    if re.search(FORM, re.sub(r"--raw \S+", "", line)):
        return "a form, with words in capitals to be replaced"
    return next((why for start, why in NOT_RUN.items() if re.match(start, line)), None)


RUN = {
    name_of(page): [command for command in plain_commands(page) if reason(command) is None]
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


def _networks():
    for name in ("CHECKPOINT", "nyu_swint", "nyu_swinl", "run/best", "tuned/best"):
        exported.save_network(Path(name))
    for name in ("MODEL.onnx", "mine.onnx"):
        onnx_files.depth_of_brightness(Path(name))
    for name in ("their.onnx", "fastdepth.onnx"):
        onnx_files.foreign(Path(name))
    for name in ("model.onnx", "relative.onnx"):
        shape = (1, 3, "height", "width")
        onnx_files.foreign(Path(name), ("pixel_values", "predicted_depth"), shape)
    Path("relative.json").write_text('{"like": "depth-anything-v2"}')


def _photos():
    for folder in ("photos", "trip"):
        Path(folder).mkdir()
    for name in ("room", "photo", "bedroom", "kitchen", "photos/kitchen", "trip/a"):
        shutil.copy(EXAMPLES / "living_room.jpg", f"{name}.jpg")
    # The viewer offers a file of this name with the record of a rescaled prediction.
    Path("room_scale.json").symlink_to("room_depth16.json")
    if importlib.util.find_spec("av"):
        write_clip(Path("clip.mp4"), [room(0, (96, 128))] * 2)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, commands in RUN.items() if commands])
def test_the_commands_of_a_page_run_on_small_data(page, workshop, monkeypatch, capsys):
    monkeypatch.chdir(workshop)
    for command in RUN[page]:
        if "clip.mp4" in command.words and not Path("clip.mp4").exists():
            continue  # videos need the extra video
        words = _reduced(command)
        if "--out" in words:  # these commands make new folders
            shutil.rmtree(words[words.index("--out") + 1], ignore_errors=True)
        expected = 2 if " ".join(command.words) in REFUSED else 0
        assert run(*words) == expected, (words, capsys.readouterr().err)


def _reduced(command):
    line = " ".join(f'"{word}"' if " " in word else word for word in command.words)
    for pattern, other in SMALLER.items():
        line = re.sub(pattern, other, line)
    words = Command(command.page, f"idisc {line}").words
    if words[0] == "prepare" and "--raw" in words:
        words[words.index("--raw") + 1] = f"raw/{words[1]}"
    return words


def test_most_commands_are_run_and_every_reason_is_needed():
    commands = [command for page in PAGES for command in plain_commands(page)]
    run_here = [command for command in commands if reason(command) is None]
    assert len(run_here) > 35
    lines = [" ".join(command.words) for command in commands if command.page not in WHOLE_PAGES]
    assert [start for start in NOT_RUN if not any(re.match(start, line) for line in lines)] == []
    assert set(WHOLE_PAGES) <= set(RUN)
