"""A job predicts parts of its sources into a destination, and continues where it was interrupted.

A part is done when its notes (`_idisc/parts/<part>.json` in the destination) exist; the worker
writes them last, with sizes and hashes of the files. A job that is started again skips those parts.
At the end `_idisc/manifest.json` has the hashes of all notes, and `_idisc/failures.jsonl` the
failures. Readers of Parquet folders ignore names that begin with "_".
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import islice, tee
from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet

from idisc import configs
from idisc.cluster import rows, sources, storage
from idisc.cluster.pictures import DepthPredictor, Picture
from idisc.cluster.sources import Columns, Part, distinct, file_name
from idisc.errors import IdiscError, InputError
from idisc.executors import Executor, WorkerDied
from idisc.formats import FORMATS, FormatOptions, default_formats, encode
from idisc.formats import check as check_formats
from idisc.images import read_photo
from idisc.prediction import Prediction
from idisc.provenance import ModelInfo
from idisc.sizes import Size

NOTES, PARTS = "_idisc", "parts"  # folders of the destination
REQUEST, MANIFEST, FAILURES = "request.json", "manifest.json", "failures.jsonl"
ROWS = 64  # of a group in a Parquet file
_READERS = 16  # notes that are read at the same time
Results = Iterable[tuple[Picture, Prediction | IdiscError]]
Failure = tuple[str, str, str, str]  # key, and subject, reason and remedy of the error


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is predicted, how, and where results go."""

    parts: tuple[Part, ...]
    destination: str  # a folder: path or address
    predictor: DepthPredictor
    columns: Columns = field(default_factory=Columns)
    # Names of FORMATS for files of each picture, () for those of the task; None: Parquet.
    formats: tuple[str, ...] | None = None
    format_options: FormatOptions = field(default_factory=FormatOptions)

    def place(self, *names: str) -> str:
        """Return the place of a file of the destination."""
        return storage.join(self.destination, *names)

    @cached_property
    def request(self) -> dict[str, Any]:
        """What must be the same for a job that continues another one."""
        network = self._check_network()
        listed = json.dumps([asdict(part) for part in self.parts])
        return {
            "format": configs.FORMAT,
            "sources_sha256": hashlib.sha256(listed.encode()).hexdigest(),
            "weights_sha256": network.sha256,
            "auto": self.predictor.model == "auto",  # other shipped models, too
            "precision": network.precision,
            "convention": network.convention,
            "options": repr(self.predictor.options),
            "columns": asdict(self.columns),
            "formats": self.formats and list(self.formats),
            "format_options": repr(self.format_options),
        }

    def _check_network(self) -> ModelInfo:
        """Return what is known about the network; InputError if tables cannot hold its results."""
        if self.formats is None and self.predictor.options.normals:
            raise InputError("--normals", "tables have depth alone", "name formats with --save")
        found = self.predictor.load("cpu")
        relative = found.model.unit == "relative" and self.predictor.options.scale_from is None
        if self.formats is None and (relative or not found.engine.task.metric):
            kind = "relative depth" if relative else found.engine.task.name
            remedy = "name formats with --save"
            raise InputError(found.model.name, f"predicts {kind}, and tables have metres", remedy)
        return found.model


@dataclass(frozen=True)
class Done:
    """A part that is done."""

    part: str
    pictures: int
    failures: tuple[Failure, ...]
    notes_sha256: str


@dataclass
class Progress:
    """How far a job is."""

    parts: int  # all of them
    done: int  # parts, with those of earlier runs
    pictures: int = 0  # of this run, as all that follow
    failures: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def pictures_per_s(self) -> float:
        """Pictures of this run for each second."""
        return self.pictures / max(time.monotonic() - self.began, 1e-9)


@dataclass(frozen=True)
class Summary:
    """The result of a job, with what earlier runs did."""

    pictures: int
    parts: int
    skipped: int  # parts that were there
    failures: tuple[tuple[str, InputError], ...]  # key and error


def check(job: Job) -> None:
    """Refuse columns that are not there, a destination that cannot be written, and a network."""
    sources.check_columns(job.parts, job.columns)
    storage.check_writable(job.destination)
    _ = job.request  # opens the network


def first_size(job: Job) -> Size | None:
    """Return the size of the first picture that can be read; None if there is none."""
    for picture in (each for part in job.parts for each in sources.read_part(part, job.columns)):
        if isinstance(picture.content, bytes):
            with suppress(InputError):
                return read_photo(picture.content, picture.key).size
    return None


def run(
    job: Job, executor: Executor, progress: Callable[[Progress], None] = lambda _: None
) -> Summary:
    """Predict all parts that the destination does not have; failures are kept, not raised.

    A part whose workers died again and again is a failure; the same job again tries it again.
    """
    check(job)
    _claim(job)
    done, lost = _find_done(job), list[Failure]()
    todo = [part for part in job.parts if part.name not in done]
    state = Progress(parts=len(job.parts), done=len(done))
    progress(state)
    with closing(executor.map(_Work(replace(job, parts=())), todo)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome.error, WorkerDied):
                lost.append((outcome.item.places[0], *outcome.error.args))
                state.failures += 1
            else:
                found = done[outcome.item.name] = outcome.result()
                state.pictures += found.pictures
                state.failures += len(found.failures)
            state.done += 1
            progress(state)
    finished = [done[part.name] for part in job.parts if part.name in done]
    failures = _finish(job, finished, lost)
    pictures = sum(each.pictures for each in finished) + len(lost)
    return Summary(pictures, len(job.parts), len(job.parts) - len(todo), failures)


@dataclass(frozen=True)
class _Work:
    """Predicts a part and writes its results, then its notes; runs in a worker."""

    job: Job

    def __call__(self, part: Part) -> Done:
        results = self.job.predictor.predict(sources.read_part(part, self.job.columns))
        write = self._write_files if self.job.formats is not None else self._write_table
        count, files, failures = write(part, results)
        notes = {"part": part.name, "pictures": count, "files": files, "failures": failures}
        content = _json(notes)
        storage.write(self.job.place(NOTES, PARTS, f"{part.name}.json"), content)
        return _done_by(content)

    def _write_table(
        self, part: Part, results: Results
    ) -> tuple[int, dict[str, dict[str, Any]], list[Failure]]:
        count, stream, failures = 0, iter(results), list[Failure]()
        with tempfile.TemporaryFile() as file:  # a shard may have more results than memory holds
            with parquet.ParquetWriter(file, rows.SCHEMA, compression="zstd") as writer:
                while group := list(islice(stream, ROWS)):
                    found = [{"key": each.key, **rows.row_of(result)} for each, result in group]
                    writer.write_table(pa.Table.from_pylist(found, rows.SCHEMA))
                    count += len(found)
                    failures += [(r["key"], *r["error"].values()) for r in found if "error" in r]
            name, about = f"part-{part.name}.parquet", _describe(file)
            storage.write(self.job.place(name), file)
        return count, {name: about}, failures

    def _write_files(
        self, part: Part, results: Results
    ) -> tuple[int, dict[str, dict[str, Any]], list[Failure]]:
        count, files, failures = 0, dict[str, dict[str, Any]](), list[Failure]()
        ahead, stream = tee(results)
        names = distinct(each.name or f"{part.name}/{file_name(each.key)}" for each, _ in ahead)
        for name, (picture, result) in zip(names, stream, strict=True):
            count += 1
            try:
                found = self._encoded(result)
            except IdiscError as error:
                failures.append((picture.key, *error.args))
                continue
            for suffix, content in found.items():
                storage.write(self.job.place(f"{name}{suffix}"), content)
                files[f"{name}{suffix}"] = _describe(io.BytesIO(content))
        return count, files, failures

    def _encoded(self, result: Prediction | IdiscError) -> dict[str, bytes]:
        """Return the files of a picture by suffix."""
        if isinstance(result, IdiscError):
            raise result
        formats = [FORMATS[name] for name in self.job.formats or ()]
        formats = formats or list(default_formats(result.task))
        if self.job.predictor.options.normals:
            formats = list(dict.fromkeys([*formats, FORMATS["normals"]]))
        check_formats(result, formats)
        if any("normals" in row.needs for row in formats):
            result = result.with_normals()
        each = (encode(result, row, self.job.format_options) for row in formats)
        return {suffix: bytes(content) for files in each for suffix, content in files.items()}


def _describe(file: IO[bytes]) -> dict[str, Any]:
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    return {"bytes": file.tell(), "sha256": digest}


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _done_by(notes: bytes) -> Done:
    found = json.loads(notes)
    failures = tuple((key, subject, why, how) for key, subject, why, how in found["failures"])
    digest = hashlib.sha256(notes).hexdigest()
    return Done(found["part"], found["pictures"], failures, digest)


def _object_in(content: bytes) -> dict[str, Any]:
    """Return the JSON object; an empty one if it is damaged."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _claim(job: Job) -> None:
    """Use a new folder, or one of an earlier run of the same request; refuse any other."""
    there = storage.sizes_below(job.destination, recursive=True)
    if f"{NOTES}/{REQUEST}" not in there:
        if there:
            raise InputError(f"-o {job.destination}", "has other files", "name a new folder")
        storage.write(job.place(NOTES, REQUEST), _json(job.request))
        return
    earlier = _object_in(storage.read(job.place(NOTES, REQUEST)))
    if not earlier:
        raise InputError(job.place(NOTES, REQUEST), "damaged", "name a new folder")
    changed = [name for name, value in job.request.items() if earlier.get(name) != value]
    if changed:
        reason = f"holds results of another job ({', '.join(changed)} changed)"
        raise InputError(f"-o {job.destination}", reason, "name a new folder")


def _find_done(job: Job) -> dict[str, Done]:
    """Return the parts that have notes, and all files that these list, in the right size."""
    there = storage.sizes_below(job.destination, recursive=True)
    names = [f"{NOTES}/{PARTS}/{part.name}.json" for part in job.parts]

    def read(name: str) -> Done | None:
        notes = storage.read(job.place(name))
        try:
            files = json.loads(notes)["files"].items()
            whole = all(there.get(file) == about["bytes"] for file, about in files)
            return _done_by(notes) if whole else None
        except (ValueError, TypeError, LookupError, AttributeError):
            return None  # damaged notes are those of a part that is not done

    with ThreadPoolExecutor(_READERS) as pool:
        return {done.part: done for done in pool.map(read, filter(there.get, names)) if done}


def _finish(
    job: Job, done: Sequence[Done], lost: list[Failure]
) -> tuple[tuple[str, InputError], ...]:
    """Write the manifest and the failures, and return the latter."""
    failures = [*(failure for each in done for failure in each.failures), *lost]
    if not failures and not any(each.pictures for each in done):
        raise InputError(job.parts[0].places[0], f"no picture in {len(job.parts)} tables or shards")
    storage.remove_drafts(job.destination)
    names = ("key", "subject", "reason", "remedy")
    lines = [json.dumps(dict(zip(names, failure, strict=True))) + "\n" for failure in failures]
    storage.write(job.place(NOTES, FAILURES), "".join(lines).encode())
    parts = [asdict(each) | {"failures": len(each.failures)} for each in done]
    storage.write(job.place(NOTES, MANIFEST), _json({**job.request, "parts": parts}))
    return tuple((key, InputError(*error)) for key, *error in failures)
