"""A server in its own process, as a user starts it: under load, and beside hostile clients."""

import http.client
import json
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from tests.fakes import onnx_files, served

SCRIPT = Path(__file__).parents[2] / "docs" / "examples" / "load_serve.py"
HEAD = (
    "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
)
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
    + served.png(served.ramp(60, 80))
    + b"\r\n--x--\r\n"
)


@pytest.fixture
def url(tmp_path):
    weights = onnx_files.depth_of_brightness(tmp_path / "small.onnx")
    command = [sys.executable, "-m", "idisc", "serve", "--port", "0", "--queue", "12", "--weights"]
    with subprocess.Popen([*command, str(weights)], stdout=subprocess.PIPE) as server:
        yield server.stdout.readline().decode().strip()
        server.terminate()
        assert server.wait(30) in (0, -15)


@pytest.mark.slow
def test_200_requests_16_at_once_end_well_in_the_same_memory(url, tmp_path):
    photo = tmp_path / "room.png"
    photo.write_bytes(served.png(served.ramp(240, 320)))
    command = [sys.executable, str(SCRIPT), url, str(photo)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["answers"]["200"] == 200
    assert report["growth"] < 0.1
    assert report["p95_s"] >= report["p50_s"] > 0


def predicted(url):
    """The status of a prediction over a new connection."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    try:
        headers = {"Content-Type": "multipart/form-data; boundary=x", "Host": "localhost"}
        connection.request("POST", "/predict", FORM, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def ends(connection):
    """Tell whether the server closes a connection, with an answer or without one."""
    with suppress(ConnectionError):
        while connection.recv(65536):
            pass
    return True


@pytest.mark.slow
def test_slow_and_silent_clients_do_not_keep_others_from_an_answer(url):
    where = urlsplit(url)
    upload = f"{HEAD}Content-Length: 100000\r\n\r\n".encode() + FORM[:80].ljust(600, b"-")
    unread = f"{HEAD}Content-Length: {len(FORM)}\r\n\r\n".encode() + FORM
    hostile = [upload] * 40 + [b"GET / HT"] * 20 + [unread] * 4 + [b""] * 300
    with ExitStack() as stack:
        opened = []
        for first in hostile:
            address = (where.hostname, where.port)
            connection = stack.enter_context(socket.create_connection(address, timeout=60))
            with suppress(ConnectionError):  # it may have been dropped already
                connection.sendall(first)
            opened.append(connection)
            if len(opened) % 40 == 0:
                assert predicted(url) == 200
        for _ in range(5):
            assert predicted(url) == 200
        assert all(ends(connection) for connection in opened)
        assert predicted(url) == 200


def test_the_script_is_for_this_machine_only():
    command = [sys.executable, str(SCRIPT), "http://example.org", "photo.jpg"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "only for a server on this machine" in done.stderr
