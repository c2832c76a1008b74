"""Limits: sizes, slots, slow uploads, host names, and results that are dropped."""

import asyncio
import re
import struct
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from fastapi.testclient import TestClient
from tests.fakes import served
from tests.fakes.predicted import predicted

from idisc.errors import InputError
from idisc.serve.admission import FORM_NEEDED, Limits, names_at
from idisc.serve.results import ResultExpired, Results
from idisc.serve.sharing import client_group

PNG = served.png()
FILES = {"file": ("room.png", PNG)}
HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
FORM = HEAD + PNG + b"\r\n--x--\r\n"


def client_of(server, **options):
    return TestClient(server.app, base_url="http://localhost", **options)


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# Sizes


def test_too_many_bytes_are_refused_by_their_announced_length():
    server = served.serve(upload_mb=0.01)
    with client_of(server) as client:
        answer = client.post("/predict", files={"file": ("a.png", bytes(100_000))})
        assert answer.status_code == 413
        assert answer.json() == {"error": "a picture may have 0.01 MB here; reduce it first"}
        assert client.post("/predict", files=FILES).status_code == 200


def test_too_many_bytes_are_refused_while_they_come():
    server, taken = served.serve(upload_mb=0.01), 0

    async def receive():
        nonlocal taken
        taken += 1
        return part(HEAD if taken == 1 else bytes(10_000))

    assert asyncio.run(status_of(server, receive)) == 413
    assert taken * 10_000 < 3 * server.app.limits.body_bytes  # of an upload without an end
    assert server.engine.calls == 0


def test_json_may_be_small_only():
    with client_of(served.serve()) as client:
        answer = client.post("/results/x/mute", json={"muted": {}, "known_distance": "x" * 100_000})
        assert answer.status_code == 413
        assert answer.json() == {"error": "JSON of more than 65536 bytes is not read"}


def test_a_picture_without_a_form_is_told_how_to_come():
    headers = {"content-type": "image/jpeg"}
    with client_of(served.serve()) as client:
        for address, size in product(("/predict", "/explain"), (0, 100, 100_000)):
            answer = client.post(address, content=bytes(size), headers=headers)
            assert (answer.status_code, answer.json()) == (415, {"error": FORM_NEEDED})


@pytest.mark.parametrize(("side", "megapixels"), [(64, 0.003), (30_000, 25)])
def test_a_picture_with_too_many_pixels_is_told_the_limit(side, megapixels):
    server = served.serve(megapixels=megapixels)
    size = struct.pack(">II", side, side)
    head = b"IHDR" + size + PNG[24:29]
    content = PNG[:12] + head + struct.pack(">I", zlib.crc32(head)) + PNG[33:]
    with client_of(server) as client:
        answer = client.post("/predict", files={"file": ("room.png", content)})
    assert answer.status_code == 413
    assert f"more than {megapixels:g} megapixels" in answer.json()["error"]
    assert server.engine.calls == 0


def test_headers_may_have_16_kb():
    with client_of(served.serve()) as client:
        assert client.get("/health", headers={"x": "a" * 15_000}).status_code == 200
        assert client.get("/health", headers={"x": "a" * 17_000}).status_code == 431


def test_limits_are_numbers_above_0():
    for field, value in product(("upload_mb", "queue"), (0, -1, float("nan"), float("inf"))):
        with pytest.raises(InputError):
            Limits(**{field: value})


# Slots


def test_a_full_queue_is_429_and_one_address_may_have_half_of_it(monkeypatch):
    server = served.serve(queue=4)
    server.engine.go.clear()
    queue = server.app.app.state.server.queue
    monkeypatch.setattr(queue, "typical_s", lambda _="": 1000.0)
    clients = [client_of(server, client=(f"10.0.0.{n}", 1)) for n in range(3)]
    with clients[0], ThreadPoolExecutor(4) as pool:
        waiting = []

        def ask(number):
            waiting.append(pool.submit(clients[number].post, "/predict", files=FILES))
            until(lambda: queue.taken == len(waiting))

        ask(0)
        ask(1)
        ask(1)
        refused = clients[1].post("/predict", files=FILES)
        assert refused.status_code == 429
        # The first of this address is the second in the queue; the queue has a slot left.
        assert 1000 < int(refused.headers["retry-after"]) <= 2000
        ask(2)
        refused = clients[2].post("/predict", files=FILES)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 1000
        health = clients[2].get("/health").json()  # is always answered
        assert (health["waiting"], health["slots"]) == (4, 4)
        server.engine.go.set()
        assert [each.result().status_code for each in waiting] == [200] * 4
        assert queue.taken == 0
        assert clients[2].post("/predict", files=FILES).status_code == 200


def test_one_network_works_for_one_at_a_time():
    server = served.serve(queue=12)
    inside, most, lock = 0, 0, threading.Lock()
    plain = server.engine.run

    def counted(*arguments):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.01)
        with lock:
            inside -= 1
        return plain(*arguments)

    server.engine.run = counted
    with client_of(server) as client, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: client.post("/predict", files=FILES), range(6)))
    assert {answer.status_code for answer in answers} == {200}
    assert most == 1


def test_nobody_waits_for_ever_and_the_server_recovers():
    server = served.serve(timeout_s=1.5)
    server.engine.go.clear()
    with client_of(server) as client:
        for _ in range(2):  # the second one waits behind what still runs
            answer = client.post("/predict", files=FILES)
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
        server.engine.go.set()
        until(lambda: client.post("/predict", files=FILES).status_code == 200)
        assert server.engine.calls == 2  # the one that waited was taken out of the line
        assert "idisc_abandoned_total 2.0" in client.get("/metrics").text


def test_who_has_left_is_taken_out_of_the_line():
    server = served.serve(timeout_s=1000)
    server.engine.go.clear()
    messages = [part(FORM, more=False), {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    assert asyncio.run(status_of(server, receive)) == 503
    server.engine.go.set()
    queue = server.app.app.state.server.queue
    until(lambda: queue.taken == 0)  # work that has started is finished


# Uploads


async def status_of(server, receive, client="10.0.0.1"):
    """The status with which an upload is answered."""
    sent = []
    headers = {
        "host": "localhost",
        "content-type": "multipart/form-data; boundary=x",
        "transfer-encoding": "chunked",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/predict",
        "raw_path": b"/predict",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "http_version": "1.1",
        "scheme": "http",
        "client": (client, 1),
        "server": ("localhost", 80),
    }

    async def send(message):
        sent.append(message)

    await server.app(scope, receive, send)
    return sent[0]["status"]


def part(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


def stopping(size=600):
    """An upload that stops after its first bytes."""
    messages = [part(HEAD + bytes(size))]

    async def receive():
        if not messages:
            await asyncio.sleep(1000)
        return messages.pop()

    return receive


def dribbling():
    """An upload that never pauses for long and never ends."""
    messages = [part(HEAD)]

    async def receive():
        await asyncio.sleep(0.01)
        return messages.pop() if messages else part(b"-")

    return receive


@pytest.mark.parametrize("limits", [{"stall_s": 0.2}, {"timeout_s": 0.2}])
@pytest.mark.parametrize("upload", [stopping, dribbling])
def test_an_upload_that_is_too_slow_is_ended(upload, limits):
    assert asyncio.run(status_of(served.serve(**limits), upload())) == 408


def test_uploads_that_stop_hold_neither_slots_nor_much_memory():
    server = served.serve(upload_mb=1, queue=2, stall_s=2)  # 2 MB for incomplete uploads

    async def everyone():
        def slow(count, size, client):
            uploads = (status_of(server, stopping(size), client) for _ in range(count))
            return asyncio.gather(*uploads)

        groups = slow(40, 600, "10.0.0.2"), slow(1, 600, "10.0.0.3"), slow(4, 900_000, "10.0.0.4")
        await asyncio.sleep(0.1)
        whole = [part(FORM, more=False)]

        async def receive():
            if not whole:
                await asyncio.sleep(1000)
            return whole.pop()

        assert await status_of(server, receive) == 200
        return [await group for group in groups]

    many, other, large = asyncio.run(everyone())
    assert 503 in many  # they gave way
    assert set(many) | set(large) == {408, 503}
    assert large.count(408) <= 2
    assert other == [408]  # an address that holds little is not asked to give way


def test_who_counts_as_one_client():
    assert client_group("10.0.0.1") == client_group("::ffff:10.0.0.1") == "10.0.0.1"
    assert client_group("2001:db8::1:2:3:4") == client_group("2001:db8::5")
    assert client_group("2001:db8::5") != client_group("2001:db8:0:1::5")


# From where


def test_a_local_server_answers_to_local_names_only():
    local = ("localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "[::1]")
    other = ("evil.example", "localhost.evil.example:80", "")
    with client_of(served.serve()) as client:
        for host in local + other:
            status = client.get("/health", headers={"host": host}).status_code
            assert status == (200 if host in local else 403)


def test_other_pages_may_not_send_pictures():
    server = served.serve()
    server.app.hosts = None  # as with --host 0.0.0.0
    with client_of(server) as client:
        for name, value, status in (
            ("sec-fetch-site", "same-origin", 200),
            ("sec-fetch-site", "none", 200),
            ("sec-fetch-site", "cross-site", 403),
            ("sec-fetch-site", "same-site", 403),
            ("origin", "http://depth.example:8000", 200),
            ("origin", "https://Depth.example:8000", 200),  # a proxy before it has the encryption
            ("origin", "http://depth.example", 403),
            ("origin", "http://evil.example:8000", 403),
            ("origin", "null", 403),
        ):
            headers = {"host": "depth.example:8000", name: value}
            answer = client.post("/predict", files=FILES, headers=headers)
            assert answer.status_code == status
            assert "access-control-allow-origin" not in answer.headers
            assert client.get("/health", headers=headers).status_code == 200


def test_what_is_this_machine():
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        names = names_at(host)
        assert names is not None
        assert {"localhost", f"[{host}]" if ":" in host else host} <= names
    for host in ("0.0.0.0", "::", "192.168.1.2", "localhost.example"):
        assert names_at(host) is None


# Results


def result(side=10):
    return predicted(np.ones((side, side)))


def test_results_go_when_nobody_asked_for_a_while():
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


def test_results_go_when_there_are_too_many_or_too_large_ones():
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


def test_explanations_count_towards_the_memory_of_results():
    results = Results(Limits(results_mb=0.05))
    first, second = results.keep(result()), results.keep(result())
    results.keep_explanation(second, served.Thirds(np.ones((120, 120), np.float32)))  # 57.6 kB
    assert len(results) == 1
    assert results.find(second).explanation is not None
    with pytest.raises(ResultExpired):
        results.find(first)


def test_only_some_explanations_are_kept():
    results = Results(Limits(explanations=2))
    tokens = [results.keep(result()) for _ in range(3)]
    for token in tokens:
        results.keep_explanation(token, served.Thirds(np.ones((4, 4), np.float32)))
    assert [results.find(token).explanation is None for token in tokens] == [True, False, False]
