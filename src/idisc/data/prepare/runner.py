"""Prepare scenes in parallel, resumably, with the same bytes for any number of workers.

A scene is done when its notes (`.prepare/<split>/<scene>.json` in the output) exist. They are
written last, so that an interrupted run continues with the scenes without notes. Scenes with
faults, which are raw files that are missing or unreadable, are tried again. The manifest is made
from all notes at the end.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc import configs, files
from idisc.data import catalog, manifest
from idisc.data.decode import NormalMap, write_depth, write_normals, write_png
from idisc.data.manifest import Manifest, Record
from idisc.data.prepare import PREPARATIONS
from idisc.data.prepare.frames import Absent, Frame, Preparation, Scene
from idisc.errors import DataError, InputError, lookup, pluralize
from idisc.executors import HERE, Executor
from idisc.images import open_picture, picture_size
from idisc.sizes import Size

NOTES = ".prepare"
MISSING = "missing.txt"
Progress = Callable[[int, int, str], None]
"""Called with the scenes done, all scenes, and the name of the last one."""


@dataclass(frozen=True)
class Summary:
    """The result of a preparation."""

    counts: dict[str, int]  # images by split
    valid: dict[str, float]  # mean share of pixels with ground truth, by split
    sha256: str  # of the manifest
    faults: list[InputError]  # each about a raw file
    absent: list[Absent] = field(default_factory=list)  # sensors that scenes do not have
    repeated: list[str] = field(default_factory=list)  # images that lists name again


def prepare(
    dataset: str,
    raw: Path | None,
    out: Path,
    options: Any = None,
    *,
    lists: Sequence[Path] = (),
    executor: Executor = HERE,
    progress: Progress | None = None,
) -> Summary:
    """Prepare the dataset below `raw` into `out`; faults are collected, not raised.

    `options` is an instance of `PREPARATIONS[dataset].options`. Rendered datasets have no `raw`.
    Workers of another machine need `raw` and `out` at the same paths.
    """
    preparation = lookup(PREPARATIONS, dataset, "dataset")
    options = preparation.options() if options is None else options
    _check_options(dataset, preparation, options)
    raw = _raw_folder(dataset, preparation, raw, out)
    spec = catalog.find(dataset)
    listed = (line for path in lists for line in manifest.read_list(path, spec.list_column))
    lines, repeated = manifest.drop_repeated(listed)
    scenes = preparation.scenes(raw, options, lines if lists else None)
    if not scenes:
        remedy = f"expected: {preparation.needs}; see {spec.home}"
        raise DataError(raw, f"contains no files of {dataset}", remedy)
    request = {
        "dataset": dataset,
        "choices": json.loads(json.dumps(configs.to_json(options))),  # lists instead of tuples
        "lists": {path.name: files.sha256(path) for path in lists},
    }
    _claim(out, request)
    remaining = [scene for scene in scenes if not _is_done(out, scene)]
    done = len(scenes) - len(remaining)
    prepare_scene = partial(_prepare_scene, dataset, out, options)
    with closing(executor.map(prepare_scene, remaining)) as outcomes:  # ends the workers, too
        for outcome in outcomes:
            outcome.result()
            done += 1
            if progress:
                progress(done, len(scenes), outcome.item.name)
    stored = preparation.stored
    empty = Manifest(dataset=dataset, target=stored, records=(), root=out, prepared=request)
    return replace(_finish(out, scenes, empty), repeated=repeated)


def _check_options(dataset: str, preparation: Preparation, options: Any) -> None:
    if type(options) is not preparation.options:
        raise InputError(dataset, f"options of type {preparation.options.__name__} are needed")
    known = {name.lower(): name for name in preparation.cameras}
    for name in getattr(options, "cameras", ()):
        lookup(known, name.lower(), f"--set cameras: camera of {dataset}")


def _raw_folder(dataset: str, preparation: Preparation, raw: Path | None, out: Path) -> Path:
    """Return the raw folder, checked before any work is done."""
    needs = preparation.needs
    if not preparation.raw:
        if raw is not None:
            raise InputError(raw, f"{dataset} is made from {needs}", "leave out --raw")
        return out
    if raw is None:
        raise InputError(dataset, "its raw files are needed", f"pass the folder as --raw: {needs}")
    if not raw.is_dir():
        raise InputError(raw, "no such folder", f"expected: {needs}")
    if out.resolve().is_relative_to(raw.resolve()):
        raise InputError(
            out, f"inside {raw}, which is searched for raw files", "choose another folder"
        )
    return raw


def _prepare_scene(dataset: str, out: Path, options: Any, scene: Scene) -> None:
    """Write the frames of one scene, then its notes; without them, it is prepared again."""
    preparation = PREPARATIONS[dataset]
    link = getattr(options, "pictures", "copy") == "link"
    records: list[Record] = []
    faults: list[InputError] = []
    absent: list[Absent] = []
    try:
        for frame in preparation.frames(scene, options):
            if isinstance(frame, InputError):
                faults.append(frame)
            elif isinstance(frame, Absent):
                absent.append(frame)
            elif record := _write_frame(frame, scene, out, dataset, link, faults):
                records.append(record)
    except InputError as error:  # of the scene's own files: a calibration, an index
        faults.append(error)
    path = _notes(out, scene)
    earlier = files.read_json(path)["records"] if path.is_file() else []
    kept = {name for record in records for name in (record.image, record.target)}
    for name in {row[key] for row in earlier for key in ("image", "target")} - kept:
        (out / name).unlink(missing_ok=True)  # of an earlier run with other keyframes
    notes = {
        "records": [configs.to_json(record) for record in records],
        "faults": [(fault.subject, fault.reason, fault.remedy) for fault in faults],
        "absent": [(row.scene, row.sensor) for row in absent],
    }
    files.write_json(path, notes)


def _write_frame(
    frame: Frame, scene: Scene, out: Path, dataset: str, link: bool, faults: list[InputError]
) -> Record | None:
    """Read all files of a frame and write it; or add the errors of all of them to `faults`."""
    stored, spec, before = PREPARATIONS[dataset].stored, catalog.find(dataset), len(faults)

    def attempt(read: Callable[[], Any]) -> Any:
        try:
            return read()
        except InputError as error:
            faults.append(error)

    target = frame.target
    size = attempt(lambda: _image_size(frame.image))
    camera = None
    if size:
        camera = attempt(lambda: frame.camera(size) or spec.camera_of(frame.name, size))
    read = (lambda: stored.read(target)) if isinstance(target, Path) else target
    values: Any = attempt(read)  # a damaged file is noticed here, not in training
    if len(faults) == before:
        values = attempt(lambda: frame.convert(values, camera))
    if len(faults) > before:
        return None
    image, written = _write_image(frame, out, link), out / stored.kind / f"{frame.name}.png"
    if isinstance(target, Path):
        _copy(target, written)
    elif isinstance(stored, NormalMap):
        write_normals(written, values, stored)
    else:
        write_depth(written, values, stored.metres_per_unit)
    valid = (values != 0).any(axis=-1) if values.ndim == 3 else values > 0
    return Record(
        image=image.relative_to(out).as_posix(),
        target=written.relative_to(out).as_posix(),
        split=scene.split,
        scene=scene.name,
        sensor=frame.sensor,
        size=camera.size if camera else size,
        intrinsics=(camera.fx, camera.fy, camera.cx, camera.cy) if camera else None,
        valid=round(float(valid.mean()), 6),
        sha256=files.sha256(image, written),
    )


def _image_size(image: Path | NDArray[np.uint8]) -> Size:
    """Return (height, width); a file is decoded completely to see that it is not damaged."""
    if not isinstance(image, Path):
        return image.shape[0], image.shape[1]
    with open_picture(image):
        return picture_size(image)


def _write_image(frame: Frame, out: Path, link: bool) -> Path:
    suffix = frame.image.suffix.lower() if isinstance(frame.image, Path) else ".png"
    path = out / "rgb" / f"{frame.name}{suffix}"
    if not isinstance(frame.image, Path):
        write_png(path, frame.image)
    elif link:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(frame.image.resolve())
    else:
        _copy(frame.image, path)
    return path


def _copy(source: Path, path: Path) -> None:
    with files.atomic(path) as draft:
        shutil.copyfile(source, draft)


def _claim(out: Path, request: dict[str, Any]) -> None:
    """Use a new folder, or one of an earlier run of the same request; refuse any other."""
    path = out / NOTES / "request.json"
    if path.is_file():
        if files.read_json(path) != request:
            raise InputError(out, "prepared with other options", "choose a new folder or remove it")
        for draft in out.rglob(".*.part"):  # of a run that was killed while it wrote
            draft.unlink(missing_ok=True)
        return
    files.check_new_folder(out)
    files.write_json(path, request)


def _notes(out: Path, scene: Scene) -> Path:
    return out / NOTES / scene.split / f"{scene.name.replace('/', '+')}.json"


def _is_done(out: Path, scene: Scene) -> bool:
    path = _notes(out, scene)
    return path.is_file() and not files.read_json(path)["faults"]


def _finish(out: Path, scenes: Sequence[Scene], source: Manifest) -> Summary:
    """Write the manifest from all notes, and the list of missing files."""
    notes = [files.read_json(_notes(out, scene)) for scene in scenes]
    records = [configs.from_json(Record, row, NOTES) for note in notes for row in note["records"]]
    # A broken calibration is a fault of every frame that needs it, but only one file to replace.
    rows = dict.fromkeys(tuple(row) for note in notes for row in note["faults"])
    faults = [InputError(*row) for row in rows]
    absent = [Absent(*row) for note in notes for row in note.get("absent", ())]
    if not records:  # absent sensors are the reason
        faults += [InputError(row.scene, f"no {row.sensor} in this scene") for row in absent]
    report = out / MISSING
    report.unlink(missing_ok=True)
    if faults:
        with files.atomic(report) as draft:
            draft.write_text("".join(f"{fault}\n" for fault in faults))
    if not records:
        raise DataError(
            report,
            f"no frame could be prepared; it lists {pluralize(len(faults), 'fault')}",
            f"download them from {catalog.find(source.dataset).home} and repeat the command",
        )
    # With the number of faults, results on the dataset can state that it is incomplete.
    prepared = {**source.prepared, **({"faults": len(faults)} if faults else {})}
    valid = {
        split: [record.valid or 0.0 for record in records if record.split == split]
        for split in ("train", "test")
    }
    return Summary(
        counts={split: len(shares) for split, shares in valid.items()},
        valid={split: float(np.mean(shares)) for split, shares in valid.items() if shares},
        sha256=manifest.write(replace(source, records=tuple(records), prepared=prepared)),
        faults=faults,
        absent=absent,
    )
