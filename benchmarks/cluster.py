"""Measure the overhead of a cluster: seconds per picture, and the memory of the object store.

    python benchmarks/cluster.py [--pictures 40] [--weights MODEL]

The same job runs in this process and on Ray, with one worker of one thread each and Parquet as its
output. The difference is what Ray adds: sending parts and waiting for results. Starting Ray and the
worker is excluded, because it happens once per job. `idisc.cluster.predict` then runs with batches
of several sizes, while the size of the object store is recorded.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import numpy as np
from PIL import Image

from idisc.cli.main import run_script
from idisc.errors import require
from idisc.executors import HERE, Executor

SIZE, PART, BATCHES = (480, 640), 5, (4, 16, 64)


def make_pictures(folder: Path, count: int) -> None:
    """Write pictures of noise with large blobs, which JPEG cannot compress to almost nothing."""
    folder.mkdir()
    for number in range(count):
        generator = np.random.default_rng(number)
        coarse = generator.integers(0, 256, (48, 64, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize(SIZE[::-1], Image.Resampling.BICUBIC)
        image.save(folder / f"{number:05d}.jpg", quality=90)


def seconds_for_each(folder: Path, out: Path, model: str | None, executor: Executor) -> float:
    """Return the time per picture, without the first part, which includes the start of a worker."""
    from idisc.cluster import DepthPredictor
    from idisc.cluster.job import Job, Progress, run
    from idisc.cluster.sources import list_parts

    times: list[float] = []

    def note(state: Progress) -> None:
        if state.pictures:
            times.append(time.perf_counter())

    parts = tuple(list_parts([str(folder)], part_size=PART))
    run(Job(parts=parts, destination=str(out), predictor=DepthPredictor(model)), executor, note)
    return (times[-1] - times[0]) / (PART * (len(times) - 1))


@contextmanager
def watched() -> Iterator[list[float]]:
    """Yield a list of megabytes in the object store, which grows until the block ends."""
    import ray
    from ray._private.internal_api import node_stats

    (node,) = ray.nodes()
    address, port = node["NodeManagerAddress"], node["NodeManagerPort"]
    seen, ended = [0.0], threading.Event()

    def repeat() -> None:
        while not ended.wait(0.1):
            found = node_stats(address, port, include_memory_info=False)
            seen.append(found.store_stats.object_store_bytes_used / 1e6)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def stream_batches(folder: Path, model: str | None, rows: int) -> None:
    """Predict the pictures of a folder as a dataset of Ray."""
    import pyarrow as pa
    import ray.data

    import idisc.cluster

    table = pa.table({"bytes": [path.read_bytes() for path in sorted(folder.iterdir())]})
    dataset = ray.data.from_arrow(table).repartition(max(1, len(table) // rows))
    for _ in idisc.cluster.predict(dataset, model, workers=1, batch_rows=rows).iter_batches():
        pass


@click.command()
@click.option("--pictures", default=40, show_default=True)
@click.option("--weights", help="Model [the default model]")
def measure(pictures: int, weights: str | None) -> None:
    """Print seconds for each picture, local and on Ray, and the object store by batch size."""
    require("ray", "pyarrow", "grpc", extra="cluster")
    os.environ["OMP_NUM_THREADS"] = "1"
    from idisc.cluster.connection import connected
    from idisc.cluster.executor import RayExecutor

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_pictures(folder / "in", pictures)
        local = seconds_for_each(folder / "in", folder / "local", weights, HERE)
        click.echo(f"local    {local:.4f} s for each picture")
        began = time.perf_counter()
        with connected("local"):
            click.echo(f"start of Ray {time.perf_counter() - began:.1f} s, once for each job")
            with watched() as seen:
                executor = RayExecutor(workers=1)
                remote = seconds_for_each(folder / "in", folder / "ray", weights, executor)
            extra = f"{remote / local - 1:+.1%}, {1000 * (remote - local):+.1f} ms"
            click.echo(f"cluster  {remote:.4f} s for each picture, {extra}")
            click.echo(f"object store, a job in parts of {PART}: {max(seen):.1f} MB at most")
            for rows in BATCHES:
                with watched() as seen:
                    stream_batches(folder / "in", weights, rows)
                click.echo(f"object store, batches of {rows:2}: {max(seen):.1f} MB at most")


if __name__ == "__main__":
    run_script(lambda: measure(standalone_mode=False))
