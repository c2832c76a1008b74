"""Prediction, evaluation and serving on a system without the modules that only POSIX has."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes import onnx_files
from tests.fakes.photographed import three_photos
from tests.fakes.scored import own_pairs, scored_by

# The standard library chooses its half for this system on import, so it is imported first.
ELSEWHERE = """
import asyncio, concurrent.futures.process, multiprocessing, os, sys, tempfile

MISSING = "fcntl grp posix pty pwd resource syslog termios tty"
for name in MISSING.split():
    sys.modules[name] = None
for name in "fork forkpty geteuid getuid getpgid killpg sched_getaffinity setsid statvfs".split():
    if hasattr(os, name):
        delattr(os, name)

from idisc.cli.main import main

def call(*arguments):
    try:
        main(list(arguments))
    except SystemExit as end:
        assert not end.code, arguments
"""
SERVED = """
from starlette.testclient import TestClient
from idisc.serve.app import create_app
from idisc.serve.connections import server_config
from idisc.serve.explorer import open_network

app = create_app(open_network({model!r}, "cpu"))
server_config(app).load()
with TestClient(app, base_url="http://127.0.0.1") as client:
    answer = client.post("/predict?format=png16", files={{"file": open({photo!r}, "rb")}})
    assert answer.status_code == 200, answer.text
"""


def elsewhere(code):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ELSEWHERE + code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_photo_is_predicted_and_served_and_a_folder_is_evaluated(tmp_path):
    model = str(onnx_files.depth_of_brightness(tmp_path / "small.onnx"))
    photos, out = three_photos(tmp_path), tmp_path / "out"
    formats = "png,png16,npy,npz,ply,glb,html"
    call = ("predict", str(photos), "-o", str(out), "--weights", model, "--save", formats)
    served = SERVED.format(model=model, photo=str(photos / "a.png"))
    own = own_pairs(tmp_path)
    report = ("--data", own, "--out", tmp_path / "report")
    scoring = [str(each) for each in ("evaluate", *scored_by(own), *report)]
    elsewhere(f"call(*{call!r})\ncall(*{scoring!r})\n{served}")
    assert (out / "index.html").is_file()
    assert (tmp_path / "report/report.json").is_file()
