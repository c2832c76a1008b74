"""Golden messages: the exact line that a user sees for the most common mistakes.

All other tests assert the type and fields of an error, so its wording may change without them.
"""

import pytest
from tests.fakes import called, onnx_files
from tests.fakes.photographed import three_photos

from idisc.zoo import cards

MESSAGES = {
    "predict none.jpg": "none.jpg: no such file",
    "predict none.jpg *.gif": "none.jpg, *.gif: no such file; no pictures or videos match",
    "predict empty": "empty: no pictures or videos in this folder; --recursive includes subfolders",
    "predict photos": (
        "default model: no model ships with this version; name a checkpoint folder or an"
        " .onnx file (--weights, or idisc.load(path)); `idisc convert` makes one from a"
        " published file"
    ),
    "predict photos --weights nowhere": (
        "nowhere: no such file or folder; name a checkpoint folder or an .onnx file"
    ),
    "predict photos --weights nyu_swint": (
        "nyu_swint: its weights are not included; `idisc models nyu_swintiny.pt` says where"
        " to get them, then run `idisc convert nyu_swintiny.pt --out nyu_swintiny`"
    ),
    "predict photos --save jpg": (
        "format jpg: 8 bits are too few for metres; choose png16, npy, npz or exr for depth,"
        " png for a picture"
    ),
    "predict photos --save pgn": "format 'pgn': does not exist; did you mean png or png16?",
    "predict photos --known-distance here": (
        "known distance 'here': not understood; write x1,y1 x2,y2 = 2.40m"
    ),
    "predict photos --focal 26": "--focal 26: no unit; write 26mm (35 mm equivalent) or 1400px",
    "predict photos --fov 60 --focal 26mm": (
        "--fov, --focal and --camera-matrix exclude each other; pass one (see idisc predict --help)"
    ),
    "predict photos --range far": "--range far: not a range; write it in metres, as 0.5,8",
    "predict photos --side-by-side": (
        "--side-by-side is for videos, and there is none; leave it out (see idisc predict --help)"
    ),
    "predict - --save png16,npy": (
        "--save: stdout has room for one format; name one, or pass -o DIR"
    ),
    "predict photos/broken.png --weights small.onnx": (
        "photos/broken.png: not a picture, or its first bytes are damaged"
    ),
    "predict photos/a.png --weights small.onnx --camera-matrix 900,900,640,360": (
        "a.png: camera matrix: cx 640, cy 360 are outside of a picture 40 pixels wide and 30"
        " high; scale it as the picture was scaled"
    ),
    "train nyu_swin --data photos --out run": (
        "recipe 'nyu_swin': does not exist; did you mean nyu_swint or nyu_swinl or nyu_swinb?"
    ),
    "train nyu_swint --data photos --out run --set train.lrr=1": (
        "--set train.lrr: there is no field 'lrr'; did you mean lr?"
    ),
    "serve --queue 0": (
        "Invalid value for '--queue': 0 is not in the range x>=1. (see idisc serve --help)"
    ),
}


@pytest.mark.parametrize("arguments", MESSAGES)
def test_a_common_mistake_is_one_line(arguments, tmp_path, monkeypatch, capsys):
    photos = three_photos(tmp_path)
    (photos / "broken.png").write_bytes(b"not a picture")
    (tmp_path / "empty").mkdir()
    onnx_files.depth_of_brightness(tmp_path / "small.onnx")
    monkeypatch.setattr(cards, "HOME", tmp_path / "zoo")
    monkeypatch.chdir(tmp_path)
    assert called.run(*arguments.split()) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"idisc: {MESSAGES[arguments]}\n")
