"""Scenes in parallel, resumable, the same bytes for any number of workers.

A scene is done when its notes (`.prepare/<scene>.json` in the output) are there; they are written
last, so an interrupted run goes on with the scenes that have none, and scenes with faults are
tried again. The manifest is put together from the notes, sorted, at the end.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from idisc import config, files
from idisc.data import catalog, manifest
from idisc.data.decode import NormalMap, StoredDepth, Target, write_depth, write_normals, write_png
from idisc.data.manifest import Manifest, Record
from idisc.data.prepare import STEPS
from idisc.data.prepare.frames import (
    Fault,
    Frame,
    PrepareConfig,
    Scene,
    all_faults,
    decode_picture,
)
from idisc.errors import DataError, InputError, counted
from idisc.images import open_picture, picture_size
from idisc.sizes import Size

NOTES = ".prepare"
MISSING = "missing.txt"
Progress = Callable[[int, int, str], None]
"""Called with scenes done, scenes in all, and the name of the last one."""


@dataclass(frozen=True)
class Summary:
    """What a preparation made."""

    counts: dict[str, int]  # pictures by split
    valid: dict[str, float]  # mean share of pixels with ground truth, by split
    sha256: str  # of the manifest
    faults: list[Fault]
    repeated: list[str] = field(default_factory=list)  # pictures that lists name again


def prepare(
    dataset: str,
    raw: Path | None,
    out: Path,
    choices: PrepareConfig,
    *,
    lists: Sequence[Path] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> Summary:
    """Prepare the dataset below `raw` into `out`; faults are collected, not raised.

    A dataset that is made here, as the synthetic ones are, has no `raw`.
    """
    steps = config.lookup(STEPS, dataset, "dataset")
    own_choices = _own_choices(dataset, choices)
    raw = _raw_folder(dataset, raw, out)
    spec = catalog.find(dataset)
    listed = (line for path in lists for line in manifest.read_list(path, spec.list_column))
    lines, repeated = manifest.once(listed)
    scenes = steps.scenes(raw, choices, lines if lists else None)
    if not scenes:
        raise DataError(f"{raw}: nothing of {dataset} in it; {steps.needs} needed, see {spec.home}")
    request = {
        "dataset": dataset,
        "choices": json.loads(json.dumps(own_choices)),  # as it is read back: no tuples
        "lists": {path.name: files.sha256(path) for path in lists},
    }
    _claim(out, request)
    # One worker or four: what a scene writes depends on nothing but the scene.
    todo = [scene for scene in scenes if not _is_done(out, scene)]
    done = len(scenes) - len(todo)
    with closing(_each(dataset, todo, out, choices, workers)) as names:
        for name in names:
            done += 1
            if progress:
                progress(done, len(scenes), name)
    empty = Manifest(dataset=dataset, target=steps.stored, records=(), root=out, prepared=request)
    return replace(_finish(out, scenes, empty), repeated=repeated)


def _own_choices(dataset: str, choices: PrepareConfig) -> dict[str, Any]:
    """The choices that the dataset has; one that it has not would change nothing: an error."""
    own = STEPS[dataset].choices
    values, defaults = config.to_json(choices), config.to_json(PrepareConfig())
    for name, value in values.items():
        if name not in own and value != defaults[name]:
            raise InputError(f"{dataset} has no choice '{name}'; it has: {', '.join(own)}")
    known = {name.lower(): name for name in STEPS[dataset].cameras}
    for name in choices.cameras:
        config.lookup(known, name.lower(), f"--set cameras: camera of {dataset}")
    return {name: values[name] for name in own}


def _raw_folder(dataset: str, raw: Path | None, out: Path) -> Path:
    """The raw folder, looked at before any work is done."""
    steps = STEPS[dataset]
    if not steps.raw:
        if raw is not None:
            raise InputError(f"{raw}: {dataset} is made from {steps.needs}; leave out --raw")
        return out
    if raw is None:
        raise InputError(f"{dataset}: {steps.needs} needed; pass the folder as --raw")
    if not raw.is_dir():
        raise InputError(f"{raw}: no such folder; {dataset} needs {steps.needs}")
    if out.resolve().is_relative_to(raw.resolve()):
        raise InputError(
            f"{out}: inside {raw}, where raw files are looked for; name another folder"
        )
    return raw


def _each(
    dataset: str, todo: Sequence[Scene], out: Path, choices: PrepareConfig, workers: int
) -> Generator[str, None, None]:
    """Names of scenes, as they get done; whatever ends it early ends its workers, too."""
    if workers <= 1 or len(todo) < 2:
        for scene in todo:
            _prepare_scene(dataset, scene, out, choices)
            yield scene.name
        return
    others = set(multiprocessing.active_children())
    # Spawned, not forked: a fork copies the locks of threads that do not come along.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        min(workers, len(todo)), mp_context=context, initializer=_start_worker
    ) as pool:
        try:
            jobs = {
                pool.submit(_prepare_scene, dataset, scene, out, choices): scene.name
                for scene in todo
            }
            for job in as_completed(jobs):
                job.result()
                yield jobs[job]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()  # a scene without notes is done again: nothing to wait for
            raise


def _start_worker() -> None:
    """A worker leaves Ctrl-C to its parent, and ends when that is gone, however it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # also out of the middle of a scene: nobody waits for it


def _prepare_scene(dataset: str, scene: Scene, out: Path, choices: PrepareConfig) -> None:
    """Write the frames of one scene, then the notes that say that it is done."""
    steps = STEPS[dataset]
    records: list[Record] = []
    faults: list[Fault] = []
    try:
        for frame in steps.frames(scene, choices):
            if isinstance(frame, Fault):
                faults.append(frame)
                continue
            try:
                records.append(_written(frame, scene, out, choices, dataset))
            except InputError as error:
                faults += all_faults(error, _readings(frame, steps.stored))
    except InputError as error:  # the scene's own files: a calibration, an index
        faults.append(Fault.of(error))
    _clear(out, scene, records)
    notes = {
        "records": [config.to_json(record) for record in records],
        "faults": [asdict(fault) for fault in faults],
    }
    files.write_json(_notes(out, scene), notes)


def _clear(out: Path, scene: Scene, records: Sequence[Record]) -> None:
    """Remove what an earlier run wrote for the scene and this one did not: other keyframes."""
    path = _notes(out, scene)
    earlier = files.read_json(path)["records"] if path.is_file() else []
    kept = {name for record in records for name in (record.image, record.target)}
    for name in {row[key] for row in earlier for key in ("image", "target")} - kept:
        (out / name).unlink(missing_ok=True)


def _readings(frame: Frame, stored: Target) -> Iterator[Callable[[], object]]:
    """What reads each file of a frame, or raises."""
    if isinstance(frame.image, Path):
        yield partial(decode_picture, frame.image)
    if isinstance(frame.target, Path):
        yield partial(stored.read, frame.target)


def _written(frame: Frame, scene: Scene, out: Path, choices: PrepareConfig, dataset: str) -> Record:
    stored = STEPS[dataset].stored
    image = _write_image(frame, out, link=choices.pictures == "link")
    target = out / stored.kind / f"{frame.name}.png"
    values: StoredDepth
    if isinstance(frame.target, Path):
        values = stored.read(frame.target)  # a damaged file is noticed here, not in training
        _copy(frame.target, target)
    else:
        values = frame.target
        _write_target(target, values, stored)
    camera = frame.camera
    return Record(
        image=image.relative_to(out).as_posix(),
        target=target.relative_to(out).as_posix(),
        split=scene.split,
        scene=scene.name,
        sensor=frame.sensor,
        size=camera.size if camera else _size(frame),
        intrinsics=(camera.fx, camera.fy, camera.cx, camera.cy) if camera else None,
        valid=round(_share(values), 6),
        sha256=files.sha256(image, target),
    )


def _write_image(frame: Frame, out: Path, *, link: bool) -> Path:
    if isinstance(frame.image, Path):
        with open_picture(frame.image):  # decoded once: a damaged one is a fault, not a sample
            path = out / "rgb" / f"{frame.name}{frame.image.suffix.lower()}"
        if link:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.symlink_to(frame.image.resolve())
        else:
            _copy(frame.image, path)
        return path
    path = out / "rgb" / f"{frame.name}.png"
    write_png(path, frame.image)
    return path


def _write_target(path: Path, values: StoredDepth, stored: Target) -> None:
    if isinstance(stored, NormalMap):
        write_normals(path, values.astype(np.float32), stored)
    else:
        write_depth(path, values, stored.metres_per_unit)


def _copy(source: Path, path: Path) -> None:
    with files.atomic(path) as draft:
        shutil.copyfile(source, draft)


def _size(frame: Frame) -> Size:
    if isinstance(frame.image, Path):
        return picture_size(frame.image)
    return frame.image.shape[0], frame.image.shape[1]


def _share(values: StoredDepth) -> float:
    there = (values != 0).any(axis=-1) if values.ndim == 3 else values > 0
    return float(there.mean())


def _claim(out: Path, request: dict[str, Any]) -> None:
    """The output is new, or an earlier run of the same request; anything else is left alone."""
    path = out / NOTES / "request.json"
    if path.is_file():
        if files.read_json(path) != request:
            raise InputError(f"{out}: prepared with other choices; name a new folder or remove it")
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
    """The manifest from all notes, and the list of what was missing."""
    notes = [files.read_json(_notes(out, scene)) for scene in scenes]
    records = [config.from_json(Record, row, NOTES) for each in notes for row in each["records"]]
    # One broken calibration is the fault of every frame that needs it, and one file to get.
    faults = list(dict.fromkeys(Fault(**row) for each in notes for row in each["faults"]))
    report = out / MISSING
    report.unlink(missing_ok=True)
    if faults:
        with files.atomic(report) as draft:
            draft.write_text("".join(f"{fault.path}: {fault.reason}\n" for fault in faults))
    if not records:
        first = f" (first: {faults[0].path}: {faults[0].reason})" if faults else ""
        raise DataError(
            f"{out}: no frame could be prepared; {report} lists {counted(len(faults), 'fault')}"
            f"{first}; get the files from {catalog.find(source.dataset).home} and run the same"
            " command again"
        )
    # So that a score on what is there can say that it is not all.
    prepared = {**source.prepared, **({"faults": len(faults)} if faults else {})}
    by_split = {split: [r for r in records if r.split == split] for split in ("train", "test")}
    return Summary(
        counts={split: len(rows) for split, rows in by_split.items()},
        valid={
            split: float(np.mean([row.valid or 0.0 for row in rows]))
            for split, rows in by_split.items()
            if rows
        },
        sha256=manifest.write(replace(source, records=tuple(records), prepared=prepared)),
        faults=faults,
    )
