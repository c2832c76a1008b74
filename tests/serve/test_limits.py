"""What strangers may ask: sizes, places, seconds, names of the host, results that go."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from fastapi.testclient import TestClient
from starlette.types import Message
from tests.fakes import served
from tests.fakes.predicted import predicted

from idisc.errors import InputError
from idisc.prediction import Prediction
from idisc.serve.admission import Limits, names_at
from idisc.serve.results import ResultExpired, Results

PNG = served.png()
FILES = {"file": ("room.png", PNG)}


def client_of(server: served.Served) -> TestClient:
    return TestClient(server.app, base_url="http://localhost")


def until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# Sizes


def test_too_many_bytes_are_refused_by_their_announced_length() -> None:
    server = served.serve(upload_mb=0.01)
    with client_of(server) as client:
        answer = client.post("/predict", files={"file": ("a.png", bytes(100_000))})
        assert answer.status_code == 413
        assert answer.json() == {"error": "a picture may have 0.01 MB here; reduce it first"}
        assert client.post("/predict", files=FILES).status_code == 200


def test_too_many_bytes_are_refused_while_they_come() -> None:
    server, sent = served.serve(upload_mb=0.01), []
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        taken += 1
        head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
        body = head if taken == 1 else bytes(10_000)
        return {"type": "http.request", "body": body, "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(server.app(scope_of("/predict", content_type=MULTIPART), receive, send))
    assert sent[0]["status"] == 413
    assert taken * 10_000 < 3 * server.app.limits.body_bytes  # of an upload without an end
    assert server.engine.calls == 0


def test_json_may_be_small_only() -> None:
    with client_of(served.serve()) as client:
        answer = client.post("/results/x/mute", json={"muted": {}, "known_distance": "x" * 100_000})
        assert answer.status_code == 413
        assert answer.json() == {"error": "JSON of more than 65536 bytes is not read"}


@pytest.mark.parametrize("size", [0, 100, 100_000])
@pytest.mark.parametrize("address", ["/predict", "/explain"])
def test_a_picture_without_a_form_is_told_how_to_come(address: str, size: int) -> None:
    headers = {"content-type": "image/jpeg"}
    with client_of(served.serve()) as client:
        answer = client.post(address, content=bytes(size), headers=headers)
    assert answer.status_code == 415
    assert answer.json()["error"].startswith("send the picture as the field file of a form")


def test_too_many_pixels_are_refused_before_they_are_decoded() -> None:
    server = served.serve(megapixels=0.003)
    with client_of(server) as client:
        answer = client.post("/predict", files=FILES)
    assert answer.status_code == 413
    assert answer.json()["error"] == (
        "room.png: 0.00307 million pixels, at most 0.003 here; reduce it first"
    )
    assert server.engine.calls == 0


@pytest.mark.parametrize("field", ["upload_mb", "megapixels", "queue", "timeout_s"])
def test_limits_are_numbers_above_0(field: str) -> None:
    for value in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InputError):
            Limits(**{field: value})


# Places and seconds


def test_a_full_line_is_429_and_says_when_to_ask_again() -> None:
    server = served.serve(queue=2)
    server.engine.go.clear()
    queue = server.app.queue
    with client_of(server) as client, ThreadPoolExecutor(2) as pool:
        waiting: list[Future[Any]] = []
        for number in (1, 2):
            waiting.append(pool.submit(client.post, "/predict", files=FILES))
            until(lambda number=number: queue.taken == number)
        refused = client.post("/predict", files=FILES)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json() == {"error": "2 requests are waiting; try again in 1 s"}
        health = client.get("/health").json()  # is always answered
        assert (health["waiting"], health["slots"]) == (2, 2)
        server.engine.go.set()
        assert [each.result().status_code for each in waiting] == [200, 200]
        assert queue.taken == 0
        assert client.post("/predict", files=FILES).status_code == 200


def test_one_network_works_for_one_at_a_time() -> None:
    server = served.serve(queue=8)
    inside, most, lock = 0, 0, threading.Lock()
    plain = server.engine.run

    def counted(*arguments: Any) -> Any:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.01)
        with lock:
            inside -= 1
        return plain(*arguments)

    server.engine.run = counted  # type: ignore[method-assign]
    with client_of(server) as client, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: client.post("/predict", files=FILES), range(6)))
    assert {answer.status_code for answer in answers} == {200}
    assert most == 1


def test_nobody_waits_for_ever_and_the_server_recovers() -> None:
    server = served.serve(timeout_s=1.5)
    server.engine.go.clear()
    with client_of(server) as client:
        answer = client.post("/predict", files=FILES)
        assert answer.status_code == 503
        assert answer.json()["error"].startswith("no answer within 1.5 s; try again later")
        assert int(answer.headers["retry-after"]) >= 1
        behind = client.post("/predict", files=FILES)  # waits behind what still runs
        assert behind.status_code == 503
        server.engine.go.set()
        until(lambda: client.post("/predict", files=FILES).status_code == 200)
        assert server.engine.calls == 2  # the one that waited was taken out of the line
        assert "idisc_abandoned_total 2.0" in client.get("/metrics").text


def scope_of(path: str, **headers: str) -> dict[str, Any]:
    raw = [(b"host", b"localhost")]
    raw += [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": raw,
        "http_version": "1.1",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }


def form() -> bytes:
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
    return head + PNG + b"\r\n--x--\r\n"


MULTIPART = "multipart/form-data; boundary=x"


def test_an_upload_that_stalls_is_ended() -> None:
    server, sent = served.serve(timeout_s=0.1), []

    async def receive() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(server.app(scope_of("/predict", content_type=MULTIPART), receive, send))
    assert sent[0]["status"] == 408
    assert server.app.queue.taken == 0


def test_the_seconds_of_a_slow_upload_are_not_given_twice() -> None:
    server, sent = served.serve(timeout_s=2.0), []
    server.engine.go.clear()
    messages: list[Message] = [{"type": "http.request", "body": form(), "more_body": False}]

    async def receive() -> Message:
        await asyncio.sleep(1.5 if messages else 60)
        return messages.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    start = time.monotonic()
    asyncio.run(server.app(scope_of("/predict", content_type=MULTIPART), receive, send))
    assert 1.9 < time.monotonic() - start < 3.0  # not 3.5 s
    assert sent[0]["status"] == 503
    server.engine.go.set()


def test_who_has_left_is_taken_out_of_the_line() -> None:
    server, sent = served.serve(timeout_s=30), []
    server.engine.go.clear()
    messages: list[Message] = [
        {"type": "http.request", "body": form(), "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    start = time.monotonic()
    asyncio.run(server.app(scope_of("/predict", content_type=MULTIPART), receive, send))
    assert time.monotonic() - start < 20  # not 30 s
    assert sent[0]["status"] == 503
    assert server.app.queue.taken == 0
    server.engine.go.set()


# From where


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("[::1]", 200),
        ("evil.example", 403),
        ("localhost.evil.example:80", 403),
        ("", 403),
    ],
)
def test_a_local_server_answers_to_local_names_only(host: str, status: int) -> None:
    with client_of(served.serve()) as client:
        answer = client.get("/health", headers={"host": host})
        assert answer.status_code == status
        if status == 403:
            assert answer.json()["error"].endswith("open it by that name, or start it with --host")


@pytest.mark.parametrize(
    ("site", "status"),
    [("same-origin", 200), ("none", 200), ("cross-site", 403), ("same-site", 403)],
)
def test_other_pages_may_not_send_pictures(site: str, status: int) -> None:
    with client_of(served.serve()) as client:
        answer = client.post("/predict", files=FILES, headers={"sec-fetch-site": site})
        assert answer.status_code == status
        if status == 403:
            assert answer.json() == {"error": "other web pages may not send pictures here"}
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://depth.example:8000", 200),
        ("https://Depth.example:8000", 200),  # a proxy before it has the encryption
        ("http://depth.example", 403),
        ("http://evil.example:8000", 403),
        ("null", 403),
    ],
)
def test_an_open_server_knows_other_pages_by_their_origin(origin: str, status: int) -> None:
    headers = {"host": "depth.example:8000", "origin": origin}
    server = served.serve()
    server.app.hosts = None  # as with --host 0.0.0.0
    with client_of(server) as client:
        assert client.post("/predict", files=FILES, headers=headers).status_code == status
        assert client.get("/health", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("localhost.example", False),
    ],
)
def test_what_is_this_machine(host: str, local: bool) -> None:
    names = names_at(host)
    assert (names is not None) is local
    assert names is None or {"localhost", f"[{host}]" if ":" in host else host} <= names


# Results


def result(side: int = 10) -> Prediction:
    return predicted(np.ones((side, side)))


def test_results_go_when_nobody_asked_for_a_while() -> None:
    now = [0.0]
    results = Results(Limits(keep_s=10), lambda: now[0])
    first, second = results.keep(result()), results.keep(result())
    now[0] = 9
    results.find(first)
    now[0] = 15
    results.thin_out()
    assert len(results) == 1
    assert results.find(first).used == 15
    with pytest.raises(ResultExpired):
        results.find(second)


def test_results_go_when_there_are_too_many_or_too_large_ones() -> None:
    results = Results(Limits(results=3, results_mb=0.05))
    tokens = [results.keep(result()) for _ in range(4)]
    assert len(results) == 3
    results.find(tokens[1])  # is the newest now
    results.keep(result(80))  # 44.8 kB
    assert len(results) == 3
    results.keep(result(80))
    assert len(results) == 1  # two are too much
    results.keep(result(200))
    assert len(results) == 1  # the last one stays, however large
    assert all(re.fullmatch(r"[\w-]{32}", token) for token in tokens)


def test_explanations_count_towards_the_memory_of_results() -> None:
    results = Results(Limits(results_mb=0.05))
    first, second = results.keep(result()), results.keep(result())
    results.keep_explanation(second, served.Thirds(np.ones((120, 120), np.float32)))  # 57.6 kB
    assert len(results) == 1
    assert results.find(second).explanation is not None
    with pytest.raises(ResultExpired):
        results.find(first)


def test_only_some_explanations_are_kept() -> None:
    results = Results(Limits(explanations=2))
    tokens = [results.keep(result()) for _ in range(3)]
    for token in tokens:
        results.keep_explanation(token, served.Thirds(np.ones((4, 4), np.float32)))
    assert [results.find(token).explanation is None for token in tokens] == [True, False, False]
