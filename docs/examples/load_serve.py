"""Send many concurrent requests to `idisc serve`; measure answers, response times and memory.

    python docs/examples/load_serve.py http://127.0.0.1:8000 photo.jpg --requests 200 --at-once 16

A request that is answered with 429 is counted and repeated after the time that the server states.
Memory is read from /metrics of the server, after a warm-up and at the end. One line of JSON is
printed; the exit code is 1 if there was any answer other than 200 and 429.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import statistics
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

FORMATS = ("png16", "npy", "json", "ply")  # one after the other
LOCAL = ("127.0.0.1", "localhost", "::1")
BOUNDARY = "7f3d1c5a9b"


def call(
    url: str, method: str, path: str, body: bytes = b"", kind: str = "text/plain"
) -> tuple[int, float, bytes]:
    """Status, seconds to wait if it is 429, and content."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=300)
    try:
        connection.request(method, path, body or None, {"Content-Type": kind})
        answer = connection.getresponse()
        return answer.status, float(answer.getheader("Retry-After") or 0), answer.read()
    finally:
        connection.close()


def predict(url: str, form: bytes, number: int) -> tuple[Counter[int], float]:
    """The status codes up to the answer, and the seconds of the last attempt."""
    statuses: Counter[int] = Counter()
    path = f"/predict?format={FORMATS[number % len(FORMATS)]}"
    for _ in range(200):
        start = time.perf_counter()
        status, wait_s, _ = call(
            url, "POST", path, form, f"multipart/form-data; boundary={BOUNDARY}"
        )
        statuses[status] += 1
        if status != 429:
            return statuses, time.perf_counter() - start
        time.sleep(wait_s)
    return statuses, float("nan")


def memory(url: str) -> float:
    """Resident bytes of the server."""
    text = call(url, "GET", "/metrics")[2].decode()
    found = re.search(r"^process_resident_memory_bytes (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else float("nan")


def main() -> None:
    """Warm up, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("url")
    parser.add_argument("photo", type=Path)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--warm-up", type=int, default=80)
    given = parser.parse_args()
    if urlsplit(given.url).hostname not in LOCAL:
        parser.error("only for a server on this machine")
    head = 'Content-Disposition: form-data; name="file"; filename="photo.jpg"'
    form = b"".join(
        [
            f"--{BOUNDARY}\r\n{head}\r\n\r\n".encode(),
            given.photo.read_bytes(),
            f"\r\n--{BOUNDARY}--\r\n".encode(),
        ]
    )

    def run(count: int) -> tuple[Counter[int], list[float], float]:
        start = time.perf_counter()
        with ThreadPoolExecutor(given.at_once) as pool:
            done = list(pool.map(lambda number: predict(given.url, form, number), range(count)))
        statuses = sum((each for each, _ in done), Counter())
        return statuses, [seconds for _, seconds in done], time.perf_counter() - start

    run(given.warm_up)
    before = memory(given.url)
    statuses, seconds, whole = run(given.requests)
    after = memory(given.url)
    report = {
        "answers": {str(status): count for status, count in sorted(statuses.items())},
        "p50_s": round(statistics.median(seconds), 3),
        "p95_s": round(statistics.quantiles(seconds, n=20)[-1], 3),
        "per_second": round(given.requests / whole, 2),
        "memory_mb": [round(before / 1e6, 1), round(after / 1e6, 1)],
        "growth": round(after / before - 1, 4),
    }
    sys.stdout.write(json.dumps(report) + "\n")
    sys.exit(0 if set(statuses) <= {200, 429} else 1)


if __name__ == "__main__":
    main()
