"""`idisc serve` in a process of its own: under load, and with hostile clients."""

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
def test_200_requests_16_at_once_are_answered_without_growth_of_memory(url, tmp_path):
    photo = tmp_path / "room.png"
    photo.write_bytes(served.png(served.ramp(240, 320)))
    command = [sys.executable, str(SCRIPT), url, str(photo)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["answers"]["200"] == 200
    assert report["growth"] < 0.1
    assert report["p95_s"] >= report["p50_s"] > 0


def status_of_prediction(url):
    """The status of a prediction over a new connection."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        headers = {"Content-Type": "multipart/form-data; boundary=x", "Host": "localhost"}
        connection.request("POST", "/predict", FORM, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def wait_until_closed(connection):
    """Read until the server closes a connection; TimeoutError if it does not."""
    with suppress(ConnectionError):
        while connection.recv(65536):
            pass


@pytest.mark.slow
def test_slow_and_silent_clients_do_not_starve_others(url):
    server = urlsplit(url)
    upload = f"{HEAD}Content-Length: 100000\r\n\r\n".encode() + FORM[:80].ljust(600, b"-")
    unread = f"{HEAD}Content-Length: {len(FORM)}\r\n\r\n".encode() + FORM
    hostile = [upload] * 40 + [b"GET / HT"] * 20 + [unread] * 4 + [b""] * 300
    with ExitStack() as stack:
        connections = []
        for content in hostile:
            address = (server.hostname, server.port)
            connection = stack.enter_context(socket.create_connection(address, timeout=60))
            with suppress(ConnectionError):  # it may have been dropped already
                connection.sendall(content)
            connections.append(connection)
            if len(connections) % 40 == 0:
                assert status_of_prediction(url) == 200
        for _ in range(5):
            assert status_of_prediction(url) == 200
        for connection in connections:
            wait_until_closed(connection)
        assert status_of_prediction(url) == 200


def test_the_script_refuses_other_machines():
    command = [sys.executable, str(SCRIPT), "http://example.org", "photo.jpg"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "only for a server on this machine" in done.stderr
