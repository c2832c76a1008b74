"""Measure `idisc predict`: start, folders of large photos, and growth of time and memory.

    python benchmarks/photos.py                     # a table, ratios first
    python benchmarks/photos.py --growth docs/images/growth.svg   # also growth, as a plot

Growth is measured by the pixels of one photo, the number of photos, and concurrent requests.

All parts are timed in turns within one run. *Reading*, *network* and *writing* are the stages of a
prediction, each alone, with all cores; *folder* is the whole command without its start.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from idisc import formats
from idisc.cli.main import run_script
from idisc.export.parity import EXAMPLES
from idisc.formats.png import png_bytes
from idisc.images import read_photo
from idisc.predict import timing
from idisc.predict.predictor import load

PHOTOS, MEGAPIXELS = 6, 12
SIZES, COUNTS, REQUESTS = (0.3, 1.2, 4.8, 19.0), (1, 10, 100, 1000), (1, 4, 16, 64)
IDISC = (sys.executable, "-m", "idisc")
# ru_maxrss of a new process begins with the memory of its parent, so a small process starts it.
PEAK = """
import resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
LOAD = Path(__file__).parents[1] / "docs/examples/load_serve.py"


class Point(NamedTuple):
    """One measurement of growth."""

    size: float  # megapixels, photos or requests
    seconds: float
    gigabytes: float
    per_second: float | None = None  # answers of the server


def main() -> None:
    """Print the table, and draw the growth if a file is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--growth", type=Path, metavar="FILE.svg", help="draw time and memory")
    parser.add_argument("--most", type=int, default=COUNTS[-1], help="photos and requests drawn")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        # An installed package has bytecode files; in a checkout, writing them may be disabled.
        os.environ |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "code")}
        for name, ratio, value in measure(folder, given.repeats):
            sys.stdout.write(f"{name:<72}{ratio:>7}{value:>12}\n")
        if given.growth:
            draw(growth(folder, given.most), given.growth)


def measure(folder: Path, repeats: int) -> list[tuple[str, str, str]]:
    """Return the rows of the table: what was measured, a ratio, an absolute value."""
    photos = write_photos(folder / "photos", PHOTOS, MEGAPIXELS)
    small = write_photos(folder / "small", 1, 0.7)
    predictor = load()
    photo = read_photo(photos[0])
    found = predictor.predict(photo)
    rows = formats.default_formats(found.task)
    steps = (1000 * found.metres).astype(np.uint16)
    stages: dict[str, Callable[[], object]] = {
        "reading": partial(read_photo, photos[0]),
        "network": partial(predictor.predict, photo),
        "writing": partial(formats.save, found, folder / "out", "photo", rows),
    }
    others: dict[str, Callable[[], object]] = {
        "nothing": partial(run_command, "--version"),
        "one": partial(predict, small, folder / "one"),
        "one's stages": partial(all_stages, predictor, small[0], folder / "stages"),
        "folder": partial(predict, photos, folder / "many"),
        "png": partial(png_bytes, steps, {}),
        "pillow": partial(pillow_png, steps),
    }
    seconds = timing.median_seconds({**stages, **others}, repeats)
    slowest = max(stages, key=lambda name: seconds[name])
    start = seconds["one"] - seconds["one's stages"]
    whole = (seconds["folder"] - start) / PHOTOS
    in_turns = sum(seconds[name] for name in stages)
    title = f"{PHOTOS} photos of {MEGAPIXELS} megapixels"
    busy = processor_seconds(partial(predict, photos, folder / "busy")) / seconds["folder"]
    return [
        (f"{title}: times faster than stages in turns", f"{in_turns / whole:.2f}", ""),
        (f"{title}: speed relative to {slowest} alone", f"{seconds[slowest] / whole:.2f}", ""),
        (f"{title}: share of all cores in use", f"{busy / (os.cpu_count() or 1):.2f}", ""),
        (f"{title}: whole command", "", f"{seconds['folder']:.1f} s"),
        *((f"  {name} of one, alone", "", f"{seconds[name]:.2f} s") for name in stages),
        ("one photo of 0.7 megapixels, new process: all but its stages", "", f"{start:.2f} s"),
        ("  of which Python and `idisc --version`", "", f"{seconds['nothing']:.2f} s"),
        (
            f"16-bit PNG of {MEGAPIXELS} megapixels: times faster than Pillow's defaults",
            f"{seconds['pillow'] / seconds['png']:.1f}",
            f"{seconds['png']:.2f} s",
        ),
        ("  size of the file, relative to Pillow's", f"{size_ratio(steps):.2f}", ""),
    ]


def processor_seconds(run: Callable[[], object]) -> float:
    """Return the processor time that child processes take in a call."""
    before = os.times()
    run()
    after = os.times()
    used = after.children_user + after.children_system
    return used - before.children_user - before.children_system


def write_photos(folder: Path, count: int, megapixels: float) -> list[Path]:
    """Write photos of rooms, enlarged, with the noise of a sensor, as JPEG; return their paths."""
    folder.mkdir()
    size = round((4e6 / 3 * megapixels) ** 0.5), round((3e6 / 4 * megapixels) ** 0.5)
    noise = np.random.default_rng(0).normal(0, 3, (size[1], size[0], 1))
    rooms = sorted(EXAMPLES.glob("*.jpg"))
    contents: list[Path] = []
    for number in range(count):
        path = folder / f"{number:04}.jpg"
        if number < len(rooms):
            with Image.open(rooms[number]) as picture:
                pixels = np.asarray(picture.convert("RGB").resize(size), np.float32) + noise
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path, quality=90)
        else:
            path.write_bytes(contents[number % len(rooms)].read_bytes())
        contents.append(path)
    return contents


def predict(photos: Sequence[Path], out: Path) -> None:
    """Run `idisc predict` with its default formats in a process of its own."""
    run_command("predict", *photos, "-o", out, "--no-gallery")


def run_command(*arguments: str | Path) -> None:
    """Run `idisc` in a process of its own."""
    subprocess.run([*IDISC, *map(str, arguments)], check=True, capture_output=True)


def all_stages(predictor: object, photo: Path, out: Path) -> None:
    """Read, predict and write one photo in this process."""
    found = predictor.predict(read_photo(photo))  # type: ignore[attr-defined]
    formats.save(found, out, "photo", formats.default_formats(found.task))


def pillow_png(values: np.ndarray) -> bytes:
    """Encode a PNG as Pillow does by default."""
    import io

    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, format="PNG")
    return buffer.getvalue()


def size_ratio(values: np.ndarray) -> float:
    """Return the size of our PNG relative to Pillow's."""
    return len(png_bytes(values, {})) / len(pillow_png(values))


def peak_of_prediction(source: Path, folder: Path) -> tuple[float, float]:
    """Return seconds and the largest resident memory (GB) of `idisc predict` in a new process."""
    out = tempfile.mkdtemp(dir=folder)  # a photo does not overwrite another one's files
    call = [*IDISC, "predict", str(source), "-o", out, "--no-gallery"]
    said = subprocess.run([sys.executable, "-c", PEAK, *call], check=True, capture_output=True)
    seconds, kilobytes = map(float, said.stdout.split()[-2:])
    return seconds, kilobytes / 1e6


def growth(folder: Path, most: int) -> dict[str, list[Point]]:
    """Return points by pixels of one photo, by photos, and by requests at once."""
    series: dict[str, list[Point]] = {name: [] for name in ("megapixels", "photos", "requests")}
    for size in SIZES:
        (photo,) = write_photos(folder / f"size_{size}", 1, size)
        series["megapixels"].append(Point(size, *peak_of_prediction(photo, folder)))
    for count in (each for each in COUNTS if each <= most):
        photo, *_ = write_photos(folder / f"count_{count}", count, SIZES[0])
        series["photos"].append(Point(count, *peak_of_prediction(photo.parent, folder)))
    with served() as url:
        for count in (each for each in REQUESTS if each <= most):
            series["requests"].append(answered(url, photo, count))
    return series


@contextmanager
def served() -> Iterator[str]:
    """Run `idisc serve` with a queue for all requests; yield its address."""
    call = [*IDISC, "serve", "--port", "0", "--queue", str(3 * REQUESTS[-1])]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as it:
        try:
            yield (it.stdout.readline() if it.stdout else "").strip()
        finally:
            it.terminate()


def answered(url: str, photo: Path, at_once: int) -> Point:
    """Return the p95 of the seconds to an answer, and the server's memory, for requests at once."""
    count = ("--requests", str(max(16, 2 * at_once)), "--at-once", str(at_once), "--warm-up", "4")
    call = [sys.executable, str(LOAD), url, str(photo), *count]
    said = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    report = json.loads(said)
    return Point(at_once, report["p95_s"], report["memory_mb"][1] / 1e3, report["per_second"])


def draw(series: dict[str, list[Point]], file: Path) -> None:
    """Print the points, and draw seconds and memory."""
    from matplotlib import pyplot

    labels = ("megapixels of one photo", f"photos of {SIZES[0]} MP", "requests at once")
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    for axis, label, (name, points) in zip(axes, labels, series.items(), strict=True):
        for point in points:
            rate = f"{point.per_second:8.2f} a second" if point.per_second else ""
            said = f"{point.size:7g} {name:12} {point.seconds:8.2f} s {point.gigabytes:6.2f} GB"
            sys.stdout.write(f"{said}{rate}\n")
        sizes, seconds, memory, _ = zip(*points, strict=True)
        time_of = "seconds, p95" if name == "requests" else "seconds, whole command"
        axis.loglog(sizes, seconds, "o-", color="#0072B2", label=time_of)
        axis.loglog(sizes, memory, "s--", color="#D55E00", label="GB, memory")
        axis.set_xlabel(label)
        axis.legend(frameon=False)
        axis.grid(alpha=0.3)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    run_script(main)
