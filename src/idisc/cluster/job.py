"""A job predicts parts of its sources into a destination, and continues where it was interrupted.

A part is finished when its notes (`_idisc/parts/<part>.json` in the destination) exist; the worker
writes them last, with sizes and hashes of the files. A job that is started again skips these parts.
At the end, `_idisc/manifest.json` has the hashes of all notes, and `_idisc/failures.jsonl` has the
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
from itertools import islice
from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet

from idisc import configs
from idisc.cluster import rows, sources, storage
from idisc.cluster.pictures import DepthPredictor, Picture
from idisc.cluster.sources import Columns, Part, file_name, unique_name
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
ROWS_PER_GROUP = 64  # of a Parquet file
_READERS = 16  # notes that are read at the same time
Results = Iterable[tuple[Picture, Prediction | IdiscError]]
Files = dict[str, dict[str, Any]]  # name -> bytes and sha256
Failure = tuple[str, str, str, str]  # key, and subject, reason and remedy of the error


@dataclass(frozen=True, kw_only=True)
class Job:
    """The sources and options of a prediction, and the destination of its results."""

    parts: tuple[Part, ...]
    destination: str  # a folder: path or address
    predictor: DepthPredictor
    columns: Columns = field(default_factory=Columns)
    # Names of FORMATS for the files of a picture, () for the default ones; None: tables.
    formats: tuple[str, ...] | None = None
    format_options: FormatOptions = field(default_factory=FormatOptions)

    def place(self, *names: str) -> str:
        """Return the path or address of a file in the destination."""
        return storage.join(self.destination, *names)

    @cached_property
    def request(self) -> dict[str, Any]:
        """The fields that must be equal if a job continues another one."""
        model = self._check_model()
        listed = json.dumps([asdict(part) for part in self.parts])
        return {
            "format": configs.FORMAT,
            "sources_sha256": hashlib.sha256(listed.encode()).hexdigest(),
            "weights_sha256": model.sha256,
            "auto": self.predictor.model == "auto",  # uses other shipped models, too
            "precision": model.precision,
            "convention": model.convention,
            "options": repr(self.predictor.options),
            "columns": asdict(self.columns),
            "formats": self.formats and list(self.formats),
            "format_options": repr(self.format_options),
        }

    def _check_model(self) -> ModelInfo:
        """Open the network and describe it; InputError if tables cannot have its results."""
        if self.formats is None and self.predictor.options.normals:
            raise InputError("--normals", "tables have depth only", "name formats with --save")
        predictor = self.predictor.load("cpu")
        model, task = predictor.model, predictor.engine.task
        relative = model.unit == "relative" and self.predictor.options.scale_from is None
        if self.formats is None and (relative or not task.metric):
            kind = "relative depth" if relative else task.name
            remedy = "name formats with --save"
            raise InputError(model.name, f"predicts {kind}, and tables have metres", remedy)
        return model


@dataclass(frozen=True)
class FinishedPart:
    """A part whose results are in the destination."""

    part: str
    pictures: int
    failures: tuple[Failure, ...]
    notes_sha256: str


@dataclass
class Progress:
    """The state of a running job."""

    parts: int  # all of them
    done: int  # parts, including those of earlier runs
    pictures: int = 0  # of this run, as all that follow
    failures: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def pictures_per_s(self) -> float:
        """Pictures of this run per second."""
        return self.pictures / max(time.monotonic() - self.started, 1e-9)


@dataclass(frozen=True)
class Summary:
    """The result of a job, including its earlier runs."""

    pictures: int
    parts: int
    skipped: int  # parts of earlier runs
    failures: tuple[tuple[str, InputError], ...]  # key and error


def check(job: Job) -> None:
    """Raise an InputError for missing columns, a read-only destination or an unfit network."""
    sources.check_columns(job.parts, job.columns)
    storage.check_writable(job.destination)
    _ = job.request  # opens the network


def first_size(job: Job) -> Size | None:
    """Return the size of the first picture that can be read; None if there is none."""
    for part in job.parts:
        for picture in sources.read_part(part, job.columns):
            if isinstance(picture.content, bytes):
                with suppress(InputError):
                    return read_photo(picture.content, picture.key).size
    return None


def run(
    job: Job, executor: Executor, progress: Callable[[Progress], None] = lambda _: None
) -> Summary:
    """Predict all parts that the destination does not have; failures are kept, not raised.

    A part whose workers died repeatedly is a failure; the next run of the job tries it again.
    """
    check(job)
    _claim_destination(job)
    finished, lost = _find_finished(job), list[Failure]()
    remaining = [part for part in job.parts if part.name not in finished]
    state = Progress(parts=len(job.parts), done=len(finished))
    progress(state)
    with closing(executor.map(_PartPredictor(replace(job, parts=())), remaining)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome.error, WorkerDied):
                lost.append((outcome.item.places[0], *outcome.error.args))
                state.failures += 1
            else:
                part = finished[outcome.item.name] = outcome.result()
                state.pictures += part.pictures
                state.failures += len(part.failures)
            state.done += 1
            progress(state)
    parts = [finished[part.name] for part in job.parts if part.name in finished]
    failures = _finish(job, parts, lost)
    pictures = sum(part.pictures for part in parts) + len(lost)
    return Summary(pictures, len(job.parts), len(job.parts) - len(remaining), failures)


@dataclass(frozen=True)
class _PartPredictor:
    """Predicts a part and writes its results, then its notes; runs in a worker."""

    job: Job

    def __call__(self, part: Part) -> FinishedPart:
        results = self.job.predictor.predict(sources.read_part(part, self.job.columns))
        write = self._write_table if self.job.formats is None else self._write_files
        count, files, failures = write(part, results)
        notes = {"part": part.name, "pictures": count, "files": files, "failures": failures}
        content = _to_json(notes)
        storage.write(self.job.place(NOTES, PARTS, f"{part.name}.json"), content)
        return _finished_part(content)

    def _write_table(self, part: Part, results: Results) -> tuple[int, Files, list[Failure]]:
        count, stream, failures = 0, iter(results), list[Failure]()
        with tempfile.TemporaryFile() as file:  # the results of a shard may not fit into memory
            with parquet.ParquetWriter(file, rows.SCHEMA, compression="zstd") as writer:
                while group := list(islice(stream, ROWS_PER_GROUP)):
                    table = [{"key": pic.key, **rows.row_of(result)} for pic, result in group]
                    writer.write_table(pa.Table.from_pylist(table, rows.SCHEMA))
                    count += len(table)
                    errors = (row for row in table if "error" in row)
                    failures += [(row["key"], *row["error"].values()) for row in errors]
            name, description = f"part-{part.name}.parquet", _describe(file)
            storage.write(self.job.place(name), file)
        return count, {name: description}, failures

    def _write_files(self, part: Part, results: Results) -> tuple[int, Files, list[Failure]]:
        count, files, failures, taken = 0, Files(), list[Failure](), set[str]()
        for picture, result in results:
            count += 1
            default_name = f"{part.name}/{file_name(picture.key)}"
            name = unique_name(picture.name or default_name, taken)
            try:
                contents = self._encode(result)
            except IdiscError as error:
                failures.append((picture.key, *error.args))
                continue
            for suffix, content in contents.items():
                storage.write(self.job.place(f"{name}{suffix}"), content)
                files[f"{name}{suffix}"] = _describe(io.BytesIO(content))
        return count, files, failures

    def _encode(self, result: Prediction | IdiscError) -> dict[str, bytes]:
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
        contents: dict[str, bytes] = {}
        for row in formats:
            files = encode(result, row, self.job.format_options)
            contents |= {suffix: bytes(content) for suffix, content in files.items()}
        return contents


def _describe(file: IO[bytes]) -> dict[str, Any]:
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    return {"bytes": file.tell(), "sha256": digest}


def _to_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _json_object(content: bytes) -> dict[str, Any]:
    """Return a JSON object; an empty one if it is damaged."""
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _finished_part(notes: bytes) -> FinishedPart:
    values = json.loads(notes)
    failures = tuple((key, *error) for key, *error in values["failures"])
    digest = hashlib.sha256(notes).hexdigest()
    return FinishedPart(values["part"], values["pictures"], failures, digest)


def _claim_destination(job: Job) -> None:
    """Use a new folder, or one of an earlier run of the same job; refuse any other."""
    sizes = storage.sizes_below(job.destination, recursive=True)
    if f"{NOTES}/{REQUEST}" not in sizes:
        if sizes:
            raise InputError(f"-o {job.destination}", "has other files", "name a new folder")
        storage.write(job.place(NOTES, REQUEST), _to_json(job.request))
        return
    earlier = _json_object(storage.read(job.place(NOTES, REQUEST)))
    if not earlier:
        raise InputError(job.place(NOTES, REQUEST), "damaged", "name a new folder")
    changed = [name for name, value in job.request.items() if earlier.get(name) != value]
    if changed:
        reason = f"holds results of another job ({', '.join(changed)} changed)"
        raise InputError(f"-o {job.destination}", reason, "name a new folder")


def _find_finished(job: Job) -> dict[str, FinishedPart]:
    """Return the parts that have notes, and all files in the notes with the right size."""
    sizes = storage.sizes_below(job.destination, recursive=True)
    names = [f"{NOTES}/{PARTS}/{part.name}.json" for part in job.parts]

    def read(name: str) -> FinishedPart | None:
        notes = storage.read(job.place(name))
        files: Files | None = _json_object(notes).get("files")
        if files is None or any(sizes.get(file) != files[file]["bytes"] for file in files):
            return None
        return _finished_part(notes)

    with ThreadPoolExecutor(_READERS) as pool:
        return {part.part: part for part in pool.map(read, filter(sizes.get, names)) if part}


def _finish(
    job: Job, parts: Sequence[FinishedPart], lost: list[Failure]
) -> tuple[tuple[str, InputError], ...]:
    """Write the manifest and the failures, and return the failures."""
    failures = [*(failure for part in parts for failure in part.failures), *lost]
    if not failures and not any(part.pictures for part in parts):
        raise InputError(job.parts[0].places[0], f"no picture in {len(job.parts)} tables or shards")
    storage.remove_drafts(job.destination)
    names = ("key", "subject", "reason", "remedy")
    lines = [json.dumps(dict(zip(names, failure, strict=True))) + "\n" for failure in failures]
    storage.write(job.place(NOTES, FAILURES), "".join(lines).encode())
    listed = [asdict(part) | {"failures": len(part.failures)} for part in parts]
    storage.write(job.place(NOTES, MANIFEST), _to_json({**job.request, "parts": listed}))
    return tuple((key, InputError(*error)) for key, *error in failures)
