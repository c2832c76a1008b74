"""`idisc serve`: what it says before it listens; the rest is in tests/serve."""

import socket
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.fakes import onnx_files

from idisc.cli import serve

uvicorn = pytest.importorskip("uvicorn", reason="the extra serve is not installed")


@pytest.fixture
def run(run):
    return partial(run, "serve")


@pytest.fixture
def weights(tmp_path):
    return str(onnx_files.depth_of_brightness(tmp_path / "small.onnx"))


@pytest.fixture
def started(monkeypatch):
    """Servers that were started, and ended at once."""
    found = []

    def runs(server, sockets):
        found.append(server)
        for each in sockets:
            each.close()

    monkeypatch.setattr(uvicorn.Server, "run", runs)
    return found


def test_it_listens_to_this_machine_unless_told(run, weights, started):
    code, out, err = run("--weights", weights, "--port", "0")
    assert (code, len(err.splitlines())) == (0, 1)  # the model and its licence
    assert out.startswith("http://127.0.0.1:")
    (server,) = started
    assert server.config.app.hosts == {"localhost", "127.0.0.1", "[::1]"}
    assert server.config.access_log is False  # names of results are secrets
    assert server.config.h11_max_incomplete_event_size == 16 * 1024  # of headers


def test_whoever_opens_it_to_all_is_told_so(run, weights, started):
    code, out, err = run("--weights", weights, "--port", "0", "--host", "0.0.0.0")
    assert (code, started[0].config.app.hosts) == (0, None)
    assert out.startswith("http://0.0.0.0:")
    assert err.splitlines()[1].startswith("0.0.0.0: ")


def test_limits_come_from_the_command_line(run, weights, started):
    options = ["--max-upload-mb", "3", "--max-megapixels", "2.5", "--queue", "4", "--timeout", "9"]
    run("--weights", weights, "--port", "0", *options, "--forwarded-allow-ips", "10.0.0.0/8")
    assert started[0].config.forwarded_allow_ips == "10.0.0.0/8"
    limits = started[0].config.app.limits
    assert (limits.upload_mb, limits.megapixels, limits.queue, limits.timeout_s) == (3, 2.5, 4, 9)


def test_help_and_documentation_tell_the_usual_limits():
    from idisc.serve.admission import Limits

    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    for option in serve.command.params:
        name = option.name
        if not hasattr(Limits(), name):
            continue
        usual = f"{getattr(Limits(), name):g}"
        assert option.help.endswith(f"[{usual}]")
        assert f"| `{option.opts[0]}` | {usual} " in page


def test_what_cannot_be_is_one_line(run, weights, monkeypatch):
    assert run("--weights", "none.onnx")[2] == "idisc: none.onnx: no such file\n"
    for option in ("--queue", "--max-upload-mb"):
        assert option in run("--weights", weights, option, "-5")[2]
    proxies = run("--weights", weights, "--forwarded-allow-ips", "10.0.0.1,proxy")
    assert (proxies[0], proxies[2].startswith("idisc: --forwarded-allow-ips proxy: ")) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, err = run("--weights", weights, "--port", port)
    assert code == 2
    assert err.startswith(f"idisc: --host 127.0.0.1 --port {port}: cannot listen (")
    assert err.rstrip().endswith("choose another --port")
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert run("--weights", weights)[2].startswith("idisc: fastapi: ")
