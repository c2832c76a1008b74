"""From the photo to its files: start, folders of large photos, growth of time and memory.

    python benchmarks/photos.py                     # a table, ratios first
    python benchmarks/photos.py --growth growth.svg # also time and memory by pixels and by photos

All parts are timed in turns within one run. *Reading*, *network* and *writing* are the stages of a
prediction, each alone, with all cores; *folder* is the whole command without its start.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

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
SIZES, COUNTS = (0.3, 1.2, 4.8, 19.0), (1, 10, 100, 1000)


def main() -> None:
    """Print the table, and draw the growth if a file is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--growth", type=Path, metavar="FILE.svg", help="draw time and memory")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for text, value in measure(folder, given.repeats):
            sys.stdout.write(f"{text:68} {value}\n")
        if given.growth:
            draw_growth(folder, given.growth)


def measure(folder: Path, repeats: int) -> list[tuple[str, str]]:
    """Return the rows of the table."""
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
    return [
        ("one photo of 0.7 megapixels, new process: everything but its stages", f"{start:.2f} s"),
        ("  of which Python and `idisc --version`", f"{seconds['nothing']:.2f} s"),
        (f"{title}: times faster than stages in turns", f"{in_turns / whole:.2f}"),
        (f"{title}: share of the speed of {slowest} alone", f"{seconds[slowest] / whole:.2f}"),
        (f"{title}: whole command", f"{seconds['folder']:.1f} s"),
        *((f"  {name} of one, alone", f"{seconds[name]:.2f} s") for name in stages),
        (
            f"16-bit PNG of {MEGAPIXELS} megapixels: times faster than Pillow's defaults",
            f"{seconds['pillow'] / seconds['png']:.1f}",
        ),
        ("  size of the file, relative to Pillow's", f"{size_ratio(steps):.2f}"),
    ]


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
    call = [sys.executable, "-m", "idisc", *map(str, arguments)]
    subprocess.run(call, check=True, capture_output=True)


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


def peak_of(photos: Sequence[Path], out: Path) -> tuple[float, float]:
    """Return seconds and the largest resident memory (GB) of `idisc predict` in a new process."""
    start = time.perf_counter()
    folder = photos[0].parent
    call = [sys.executable, "-m", "idisc", "predict", str(folder), "-o", str(out), "--no-gallery"]
    child = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(call)} failed")
    return time.perf_counter() - start, usage.ru_maxrss / 1e6


def draw_growth(folder: Path, file: Path) -> None:
    """Draw seconds and memory of one photo by its pixels, and of small photos by their number."""
    from matplotlib import pyplot

    series: dict[str, list[tuple[float, float, float]]] = {"megapixels": [], "photos": []}
    for size in SIZES:
        photos = write_photos(folder / f"size_{size}", 1, size)
        series["megapixels"].append((size, *peak_of(photos, folder / "growth")))
    for count in COUNTS:
        photos = write_photos(folder / f"count_{count}", count, 0.3)
        series["photos"].append((count, *peak_of(photos, folder / "growth")))
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for axis, (name, points) in zip(axes, series.items(), strict=True):
        sizes, seconds, memory = zip(*points, strict=True)
        for size, second, peak in points:
            sys.stdout.write(f"{size:7g} {name:12} {second:8.2f} s {peak:6.2f} GB\n")
        axis.loglog(sizes, seconds, "o-", color="#0072B2", label="seconds, whole command")
        axis.loglog(sizes, memory, "s--", color="#D55E00", label="GB, peak memory")
        axis.set_xlabel("megapixels of one photo" if name == "megapixels" else "photos of 0.3 MP")
        axis.legend(frameon=False)
        axis.grid(alpha=0.3)
    figure.savefig(file)


if __name__ == "__main__":
    run_script(main)
