"""The options of a cluster: each mistake is one line, before any work is done."""

import importlib.util
import signal
import socket
import sys
import threading

import pytest
from PIL import Image
from tests.fakes.brightness import picture

from idisc.cli.batch import Terminated, terminable


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    Image.fromarray(picture()).save(path)
    return path


def test_without_the_extra_it_says_what_to_install(photo, monkeypatch, refusal):
    for name in [each for each in sys.modules if each.startswith("idisc.cluster")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    out = photo.parent / "out"
    for call in (("predict", photo, "-o", out), ("prepare", "synthetic", "--out", out)):
        assert "idisc[cluster]" in refusal(*call, "--cluster")
    assert not out.exists()


def answer(server):
    with server.accept()[0] as stream:
        stream.sendall(b"HTTP/1.1 400 Bad Request\r\n")


def test_options_of_a_cluster_need_one(photo, refusal):
    for option in (("--workers", 2), ("--gpus-per-worker", 1), ("--column", "jpeg")):
        assert option[0] in refusal("predict", photo, *option)
    assert "--cluster" in refusal("predict", photo, "-o", "s3://bucket/folder")
    for name in ("photos.parquet", "photos.tar.gz"):
        (photo.parent / name).touch()
        assert "--cluster" in refusal("predict", photo.parent / name)


@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="needs the extra cluster")
def test_wrong_calls_are_refused(photo, refusal):
    out = photo.parent / "out"
    empty = photo.parent / "empty"
    empty.mkdir()
    other = socket.create_server(("127.0.0.1", 0))  # a web server, perhaps
    threading.Thread(target=answer, args=(other,)).start()
    calls = {
        (photo, "-o", out, f"--cluster=127.0.0.1:{other.getsockname()[1]}"): "something else",
        (photo, "--cluster"): "-o",
        (photo, "-o", out, "--cluster=127.0.0.1:1"): "127.0.0.1:1",
        (photo, "-o", out, "--cluster=nowhere"): "nowhere",
        (empty, "-o", out, "--cluster=127.0.0.1:1"): str(empty),
        (photo, "-o", photo, "--cluster=127.0.0.1:1"): f"-o {photo}",
        (photo, "-o", out, "--gallery", "--cluster"): "--gallery",
    }
    for call, subject in calls.items():
        assert subject in refusal("predict", *call)
    other.close()
    assert not out.exists()


def test_sigterm_is_told_from_ctrl_c_if_ray_replaces_the_exception():
    @terminable()
    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None

    with pytest.raises(Terminated):
        work()
