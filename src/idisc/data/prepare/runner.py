"""Prepare scenes in parallel, resumably, with the same bytes for any number of workers.

A scene is done when its notes (`.prepare/<scene>.json` in the output) exist; they are written last,
so an interrupted run continues with the scenes that have none, and scenes with faults are tried
again. The manifest is made from the sorted notes at the end.
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
from idisc.data.decode import (
    DepthMap,
    NormalMap,
    StoredDepth,
    write_depth,
    write_normals,
    write_png,
)
from idisc.data.manifest import Manifest, Record
from idisc.data.prepare import PREPARATIONS
from idisc.data.prepare.frames import Fault, Frame, Preparation, Scene, all_faults, check_image
from idisc.errors import DataError, InputError, counted
from idisc.images import picture_size

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
    faults: list[Fault]
    repeated: list[str] = field(default_factory=list)  # images that lists name again


def prepare(
    dataset: str,
    raw: Path | None,
    out: Path,
    options: Any = None,
    *,
    lists: Sequence[Path] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> Summary:
    """Prepare the dataset below `raw` into `out`; faults are collected, not raised.

    `options` is an instance of `PREPARATIONS[dataset].options`. Rendered datasets have no `raw`.
    """
    preparation = config.lookup(PREPARATIONS, dataset, "dataset")
    options = preparation.options() if options is None else options
    _check_options(dataset, preparation, options)
    raw = _raw_folder(dataset, preparation, raw, out)
    spec = catalog.find(dataset)
    listed = (line for path in lists for line in manifest.read_list(path, spec.list_column))
    lines, repeated = manifest.once(listed)
    scenes = preparation.scenes(raw, options, lines if lists else None)
    if not scenes:
        needs = preparation.needs
        raise DataError(raw, f"nothing of {dataset} in it", f"{needs} needed, see {spec.home}")
    request = {
        "dataset": dataset,
        "choices": json.loads(json.dumps(config.to_json(options))),  # as it is read back: no tuples
        "lists": {path.name: files.sha256(path) for path in lists},
    }
    _claim(out, request)
    todo = [scene for scene in scenes if not _is_done(out, scene)]
    done = len(scenes) - len(todo)
    with closing(_prepare_scenes(dataset, todo, out, options, workers)) as names:
        for name in names:
            done += 1
            if progress:
                progress(done, len(scenes), name)
    stored = preparation.stored
    empty = Manifest(dataset=dataset, target=stored, records=(), root=out, prepared=request)
    return replace(_finish(out, scenes, empty), repeated=repeated)


def _check_options(dataset: str, preparation: Preparation, options: Any) -> None:
    if type(options) is not preparation.options:
        raise InputError(dataset, f"options of type {preparation.options.__name__} are needed")
    known = {name.lower(): name for name in preparation.cameras}
    for name in getattr(options, "cameras", ()):
        config.lookup(known, name.lower(), f"--set cameras: camera of {dataset}")


def _raw_folder(dataset: str, preparation: Preparation, raw: Path | None, out: Path) -> Path:
    """The raw folder, checked before any work is done."""
    needs = preparation.needs
    if not preparation.raw:
        if raw is not None:
            raise InputError(raw, f"{dataset} is made from {needs}", "leave out --raw")
        return out
    if raw is None:
        raise InputError(dataset, f"{needs} needed", "pass the folder as --raw")
    if not raw.is_dir():
        raise InputError(raw, "no such folder", f"{dataset} needs {needs}")
    if out.resolve().is_relative_to(raw.resolve()):
        raise InputError(
            out, f"inside {raw}, where raw files are looked for", "name another folder"
        )
    return raw


def _prepare_scenes(
    dataset: str, todo: Sequence[Scene], out: Path, options: Any, workers: int
) -> Generator[str, None, None]:
    """Yield the names of scenes as they are done; anything that ends it early ends its workers."""
    if workers <= 1 or len(todo) < 2:
        for scene in todo:
            _prepare_scene(dataset, scene, out, options)
            yield scene.name
        return
    others = set(multiprocessing.active_children())
    # Spawned, not forked: a fork copies the locks of threads that it does not have.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        min(workers, len(todo)), mp_context=context, initializer=_start_worker
    ) as pool:
        try:
            jobs = {
                pool.submit(_prepare_scene, dataset, scene, out, options): scene.name
                for scene in todo
            }
            for job in as_completed(jobs):
                job.result()
                yield jobs[job]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()  # a scene without notes is prepared again
            raise


def _start_worker() -> None:
    """A worker leaves Ctrl-C to its parent, and ends when the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # also in the middle of a scene


def _prepare_scene(dataset: str, scene: Scene, out: Path, options: Any) -> None:
    """Write the frames of one scene, then its notes."""
    preparation = PREPARATIONS[dataset]
    link = getattr(options, "pictures", "copy") == "link"
    records: list[Record] = []
    faults: list[Fault] = []
    try:
        for frame in preparation.frames(scene, options):
            if isinstance(frame, Fault):
                faults.append(frame)
                continue
            try:
                records.append(_write_frame(frame, scene, out, preparation.stored, link=link))
            except InputError as error:
                faults += all_faults(error, _readings(frame, preparation.stored))
    except InputError as error:  # of the scene's own files: a calibration, an index
        faults.append(Fault.of(error))
    path = _notes(out, scene)
    earlier = files.read_json(path)["records"] if path.is_file() else []
    kept = {name for record in records for name in (record.image, record.target)}
    for name in {row[key] for row in earlier for key in ("image", "target")} - kept:
        (out / name).unlink(missing_ok=True)  # of an earlier run with other keyframes
    notes = {
        "records": [config.to_json(record) for record in records],
        "faults": [asdict(fault) for fault in faults],
    }
    files.write_json(path, notes)


def _readings(frame: Frame, stored: DepthMap | NormalMap) -> Iterator[Callable[[], object]]:
    """Functions that read each file of a frame, or raise."""
    if isinstance(frame.image, Path):
        yield partial(check_image, frame.image)
    if isinstance(frame.target, Path):
        yield partial(stored.read, frame.target)


def _write_frame(
    frame: Frame, scene: Scene, out: Path, stored: DepthMap | NormalMap, *, link: bool
) -> Record:
    image = _write_image(frame, out, link=link)
    target = out / stored.kind / f"{frame.name}.png"
    values: StoredDepth
    if isinstance(frame.target, Path):
        values = stored.read(frame.target)  # a damaged file is noticed here, not in training
        _copy(frame.target, target)
    else:
        values = frame.target
        if isinstance(stored, NormalMap):
            write_normals(target, values.astype(np.float32), stored)
        else:
            write_depth(target, values, stored.metres_per_unit)
    valid = (values != 0).any(axis=-1) if values.ndim == 3 else values > 0
    camera = frame.camera
    return Record(
        image=image.relative_to(out).as_posix(),
        target=target.relative_to(out).as_posix(),
        split=scene.split,
        scene=scene.name,
        sensor=frame.sensor,
        size=camera.size if camera else picture_size(image),
        intrinsics=(camera.fx, camera.fy, camera.cx, camera.cy) if camera else None,
        valid=round(float(valid.mean()), 6),
        sha256=files.sha256(image, target),
    )


def _write_image(frame: Frame, out: Path, *, link: bool) -> Path:
    if not isinstance(frame.image, Path):
        path = out / "rgb" / f"{frame.name}.png"
        write_png(path, frame.image)
        return path
    check_image(frame.image)  # a damaged one is a fault, not a sample
    path = out / "rgb" / f"{frame.name}{frame.image.suffix.lower()}"
    if link:
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
            raise InputError(out, "prepared with other choices", "name a new folder or remove it")
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
    records = [config.from_json(Record, row, NOTES) for each in notes for row in each["records"]]
    # A broken calibration is a fault of every frame that needs it, but one file to get.
    faults = list(dict.fromkeys(Fault(**row) for each in notes for row in each["faults"]))
    report = out / MISSING
    report.unlink(missing_ok=True)
    if faults:
        with files.atomic(report) as draft:
            draft.write_text("".join(f"{fault.path}: {fault.reason}\n" for fault in faults))
    if not records:
        first = f" (first: {faults[0].path}: {faults[0].reason})" if faults else ""
        raise DataError(
            out,
            (f"no frame could be prepared; {report} lists {counted(len(faults), 'fault')}{first}"),
            (
                f"get the files from {catalog.find(source.dataset).home} and run the same"
                " command again"
            ),
        )
    # The number of faults lets every result on the dataset say that it is incomplete.
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
    )
