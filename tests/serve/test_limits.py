"""Limits: sizes, slots, slow uploads, host names, and results that are dropped."""

import asyncio
import re
import struct
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from tests.fakes import served
from tests.fakes.predicted import predicted
from tests.fakes.served import client_of

from idisc.serve.admission import FORM_NEEDED, Limits, names_at
from idisc.serve.results import ResultExpired, Results
from idisc.serve.sharing import client_group

PNG = served.png()
FILES = {"file": ("room.png", PNG)}
FORM_HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
FORM = FORM_HEAD + PNG + b"\r\n--x--\r\n"


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# Sizes


def test_a_large_upload_is_refused_by_its_content_length():
    with client_of(served.serve(upload_mb=0.01).app) as client:
        answer = client.post("/predict", files={"file": ("a.png", bytes(100_000))})
        assert answer.status_code == 413
        assert answer.json() == {"error": "a picture may have 0.01 MB here; reduce it first"}
        assert client.post("/predict", files=FILES).status_code == 200


def test_an_endless_upload_is_refused_while_it_arrives():
    server, received = served.serve(upload_mb=0.01), 0

    async def receive():
        nonlocal received
        received += 1
        return message(FORM_HEAD if received == 1 else bytes(10_000))

    assert asyncio.run(status_of(server, receive)) == 413
    assert received * 10_000 < 3 * server.app.limits.body_bytes
    assert server.engine.calls == 0


@pytest.mark.parametrize(
    ("address", "kind", "size", "status", "message"),
    [
        ("/results/x/mute", "application/json", 100_000, 413, "JSON of more than 65536 bytes"),
        *(
            (address, "image/jpeg", size, 415, FORM_NEEDED)
            for address in ("/predict", "/explain")
            for size in (0, 100, 100_000)
        ),
    ],
)
def test_other_bodies_are_small_and_pictures_need_a_form(address, kind, size, status, message):
    with client_of(served.serve().app) as client:
        answer = client.post(address, content=bytes(size), headers={"content-type": kind})
    assert answer.status_code == status
    assert answer.json()["error"].startswith(message)


@pytest.mark.parametrize(("side", "megapixels"), [(64, 0.003), (30_000, 25)])
def test_the_error_of_a_picture_with_too_many_pixels_has_the_limit(side, megapixels):
    server = served.serve(megapixels=megapixels)
    header = b"IHDR" + struct.pack(">II", side, side) + PNG[24:29]
    content = PNG[:12] + header + struct.pack(">I", zlib.crc32(header)) + PNG[33:]
    with client_of(server.app) as client:
        answer = client.post("/predict", files={"file": ("room.png", content)})
    assert answer.status_code == 413
    assert f"more than {megapixels:g} megapixels" in answer.json()["error"]
    assert server.engine.calls == 0


def test_headers_may_have_16_kb():
    with client_of(served.serve().app) as client:
        assert client.get("/health", headers={"x": "a" * 15_000}).status_code == 200
        assert client.get("/health", headers={"x": "a" * 17_000}).status_code == 431


# Slots


def test_a_full_queue_is_429_and_one_client_may_have_half_of_it(monkeypatch):
    server = served.serve(queue=4)
    server.engine.go.clear()
    queue = server.state.queue
    monkeypatch.setattr(queue, "typical_s", lambda _="": 1000.0)
    clients = [client_of(server.app, client=(f"10.0.0.{n}", 1)) for n in range(3)]
    with clients[0], ThreadPoolExecutor(4) as pool:
        waiting = []

        def send(number):
            waiting.append(pool.submit(clients[number].post, "/predict", files=FILES))
            wait_until(lambda: queue.taken == len(waiting))

        send(0)
        send(1)
        send(1)
        refused = clients[1].post("/predict", files=FILES)
        assert refused.status_code == 429
        # The first job of this client is the second in the queue; the queue has a free slot.
        assert 1000 < int(refused.headers["retry-after"]) <= 2000
        send(2)
        refused = clients[2].post("/predict", files=FILES)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 1000
        health = clients[2].get("/health").json()  # needs no slot
        assert (health["waiting"], health["slots"]) == (4, 4)
        server.engine.go.set()
        assert [answer.result().status_code for answer in waiting] == [200] * 4
        assert queue.taken == 0
        assert clients[2].post("/predict", files=FILES).status_code == 200


def test_the_network_runs_once_at_a_time():
    server, alone = served.serve(queue=12), threading.Lock()
    run = server.engine.run

    def run_alone(*arguments):
        assert alone.acquire(blocking=False)
        time.sleep(0.01)
        alone.release()
        return run(*arguments)

    server.engine.run = run_alone
    with client_of(server.app) as client, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: client.post("/predict", files=FILES), range(6)))
    assert {answer.status_code for answer in answers} == {200}


def test_requests_time_out_and_the_server_recovers():
    server = served.serve(timeout_s=1.5)
    server.engine.go.clear()
    with client_of(server.app) as client:
        for _ in range(2):  # the second one waits behind the first, which still runs
            answer = client.post("/predict", files=FILES)
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
        server.engine.go.set()
        wait_until(lambda: client.post("/predict", files=FILES).status_code == 200)
        assert server.engine.calls == 2  # the second one was removed from the queue
        assert "idisc_abandoned_total 2.0" in client.get("/metrics").text


def test_the_job_of_a_disconnected_client_leaves_the_queue():
    server = served.serve(timeout_s=1000)
    server.engine.go.clear()
    messages = [message(FORM, more=False), {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    assert asyncio.run(status_of(server, receive)) == 503
    server.engine.go.set()
    wait_until(lambda: server.state.queue.taken == 0)  # a job that has started is finished


# Uploads


async def status_of(server, receive, client="10.0.0.1"):
    """The status of the response to an upload."""
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


def message(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


def upload(*messages, silent=True):
    """A receive of messages, after which nothing comes, or one byte every 10 ms."""
    waiting = list(messages)

    async def receive():
        if waiting:
            return waiting.pop(0)
        await asyncio.sleep(1000 if silent else 0.01)
        return message(b"-")

    return receive


@pytest.mark.parametrize("limits", [{"stall_s": 0.2}, {"timeout_s": 0.2}])
@pytest.mark.parametrize("silent", [True, False])
def test_a_slow_upload_is_ended(silent, limits):
    slow = upload(message(FORM_HEAD), silent=silent)
    assert asyncio.run(status_of(served.serve(**limits), slow)) == 408


def test_stalled_uploads_hold_neither_slots_nor_much_memory():
    server = served.serve(upload_mb=1, queue=2, stall_s=2)  # 2 MB for incomplete uploads

    async def send_all():
        def stalled(count, size, client):
            content = message(FORM_HEAD + bytes(size))
            uploads = (status_of(server, upload(content), client) for _ in range(count))
            return asyncio.gather(*uploads)

        groups = [
            stalled(40, 600, "10.0.0.2"),
            stalled(1, 600, "10.0.0.3"),
            stalled(4, 900_000, "10.0.0.4"),
        ]
        await asyncio.sleep(0.1)
        assert await status_of(server, upload(message(FORM, more=False))) == 200
        return [await group for group in groups]

    many, one, large = asyncio.run(send_all())
    assert 503 in many  # dropped
    assert set(many) | set(large) == {408, 503}
    assert large.count(408) <= 2
    assert one == [408]  # a client that holds little loses nothing


def test_an_ipv6_client_is_its_network():
    assert client_group("10.0.0.1") == client_group("::ffff:10.0.0.1") == "10.0.0.1"
    assert client_group("2001:db8::1:2:3:4") == client_group("2001:db8::5")
    assert client_group("2001:db8::5") != client_group("2001:db8:0:1::5")


# Host names and other web pages


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "[::1]")),
        *((host, 403) for host in ("evil.example", "localhost.evil.example:80", "")),
    ],
)
def test_a_local_server_answers_to_local_names_only(host, status):
    with client_of(served.serve().app) as client:
        assert client.get("/health", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("sec-fetch-site", "same-origin", 200),
        ("sec-fetch-site", "none", 200),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("origin", "http://depth.example:8000", 200),
        ("origin", "https://Depth.example:8000", 200),  # the encryption of a proxy
        ("origin", "http://depth.example", 403),
        ("origin", "http://evil.example:8000", 403),
        ("origin", "null", 403),
    ],
)
def test_other_web_pages_may_not_send_pictures(name, value, status):
    server = served.serve()
    server.app.hosts = None  # as with --host 0.0.0.0
    headers = {"host": "depth.example:8000", name: value}
    with client_of(server.app) as client:
        answer = client.post("/predict", files=FILES, headers=headers)
        assert answer.status_code == status
        assert "access-control-allow-origin" not in answer.headers
        assert client.get("/health", headers=headers).status_code == 200


def test_only_loopback_addresses_are_local():
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        assert {"localhost", f"[{host}]" if ":" in host else host} <= names_at(host)
    for host in ("0.0.0.0", "::", "192.168.1.2", "localhost.example"):
        assert names_at(host) is None


# Results


def prediction(side=10):
    return predicted(np.ones((side, side)))


def explanation(side=4):
    return served.Thirds(np.ones((side, side), np.float32))


def test_unused_results_are_dropped():
    now = [0.0]
    results = Results(Limits(keep_s=10), lambda: now[0])
    first, second = results.keep(prediction()), results.keep(prediction())
    now[0] = 9
    results.find(first.token)
    now[0] = 15
    results.thin_out()
    assert len(results) == 1
    assert results.find(first.token).used == 15
    with pytest.raises(ResultExpired):
        results.find(second.token)


def test_the_oldest_results_are_dropped_if_there_are_too_many_or_too_large_ones():
    results = Results(Limits(results=3, results_mb=0.05))
    tokens = [results.keep(prediction()).token for _ in range(4)]
    assert all(re.fullmatch(r"[\w-]{32}", token) for token in tokens)
    assert len(results) == 3
    results.find(tokens[1])  # now the most recently used one
    for side, left in ((80, 3), (80, 1), (200, 1)):  # 44.8 kB each, then 280 kB: the last one stays
        results.keep(prediction(side))
        assert len(results) == left


def test_explanations_count_towards_the_memory_of_results():
    results = Results(Limits(results_mb=0.05))
    first, second = results.keep(prediction()), results.keep(prediction())
    results.keep_explanation(second, explanation(120))  # 57.6 kB
    assert len(results) == 1
    assert results.find(second.token).explanation is not None
    with pytest.raises(ResultExpired):
        results.find(first.token)


def test_only_recent_explanations_are_kept():
    results = Results(Limits(explanations=2))
    kept = [results.keep(prediction()) for _ in range(3)]
    for result in kept:
        results.keep_explanation(result, explanation())
    assert [result.explanation is None for result in kept] == [True, False, False]
