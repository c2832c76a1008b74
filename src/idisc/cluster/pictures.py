"""DepthPredictor and predict: depth of a stream of pictures, for pipelines of Ray Data.

    dataset = ray.data.read_parquet("s3://bucket/photos")
    idisc.cluster.predict(dataset, column="jpeg").write_parquet("s3://bucket/depth")

The same with a pipeline of your own is one line:

    dataset.map_batches(idisc.cluster.DepthPredictor, batch_format="pyarrow", batch_size=16,
                        fn_constructor_kwargs={"column": "jpeg"}, concurrency=4)
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from idisc.cluster import rows
from idisc.configs.schema import Precision
from idisc.errors import IdiscError, IdiscWarning, InputError, first_line
from idisc.images import Photo, read_photo
from idisc.predict.batches import BATCH
from idisc.predict.options import PredictOptions
from idisc.predict.predictor import Predictor, load
from idisc.prediction import Prediction

if TYPE_CHECKING:
    from ray.data import Dataset

BATCH_ROWS = 16  # of `predict`: pictures of a phone are 50 MB as files


class Picture(NamedTuple):
    """A picture to predict."""

    key: str  # of its row
    content: bytes | IdiscError  # of its file; or why it could not be read
    name: str = ""  # of its results, without suffix; "": by its key


class DepthPredictor:
    """Adds the columns of `rows.RESULTS` to batches with a column of picture bytes.

    The network is loaded with the first batch, once for each worker. A picture that cannot be
    predicted has a row with its error.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        column: str = "bytes",
        key: str | None = None,
        device: str = "cpu",
        precision: Precision | None = None,
        convention: str | None = None,
        options: PredictOptions | None = None,
    ) -> None:
        """`model`, `device`, `precision` and `convention` are those of `idisc.load`.

        `column` has the bytes of the files, and `key` names the pictures in errors.
        """
        self.model, self.device, self.precision = model, device, precision
        self.column, self.key, self.convention = column, key, convention
        self.options = options or PredictOptions()

    def load(self, device: str) -> Predictor:
        """Load the network on a device."""
        return load(self.model, device, self.precision, self.convention)

    @cached_property
    def predictor(self) -> Predictor:
        """The network of this worker."""
        return self.load(self.device)

    def __call__(self, batch: pa.Table | Mapping[str, Any]) -> pa.Table:
        """Return the batch with results; without its pictures, which are in the source."""
        if not isinstance(batch, pa.Table):
            batch = pa.table({name: pa.array(list(values)) for name, values in batch.items()})
        if self.column not in batch.column_names:
            there = ", ".join(batch.column_names)
            raise InputError(f"column {self.column}", f"not in the table, which has {there}")
        names = batch[self.key].to_pylist() if self.key else range(len(batch))
        cells = batch[self.column].to_pylist()
        pictures = (picture_of(str(name), cell) for name, cell in zip(names, cells, strict=True))
        found = [rows.row_of(result) for _, result in self.predict(pictures)]
        results = pa.Table.from_pylist(found, rows.RESULTS)
        kept = batch.drop_columns([self.column])
        for field in rows.RESULTS:
            kept = kept.append_column(field, results[field.name])
        return kept

    def predict(
        self, pictures: Iterable[Picture]
    ) -> Iterator[tuple[Picture, Prediction | IdiscError]]:
        """Yield each picture and its prediction, or its error, in their order.

        On a GPU, pictures of one size go through the network together. On a CPU that saves no
        time, and one by one the results are those of `idisc predict` to the last bit.
        """
        options = copy.deepcopy(self.options)  # the rule of a camera has a state
        stream, together = iter(pictures), 1 if self.device == "cpu" else 2 * BATCH
        while group := list(islice(stream, together)):
            photos = [_read(picture) for picture in group]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", IdiscWarning)  # each is in the provenance
                found = _predict(self.predictor, photos, options)
            yield from zip(group, found, strict=True)


def predict(
    dataset: Dataset,
    model: str | Path | None = None,
    *,
    gpus: float = 0,
    workers: int | None = None,
    batch_rows: int = BATCH_ROWS,
    **options: Any,
) -> Dataset:
    """Return a Ray dataset with depth for the pictures of another one; nothing runs yet.

    `gpus` are those of each worker, `workers` is their number (by default as many as there is room
    for), and `options` are arguments of `DepthPredictor`.
    """
    import ray.data

    if gpus:
        options.setdefault("device", "cuda")
    there = ray.cluster_resources()
    room = there.get("GPU", 0) / gpus if gpus else there.get("CPU", 1)
    return dataset.map_batches(
        DepthPredictor,
        fn_constructor_args=(model,),
        fn_constructor_kwargs=options,
        batch_format="pyarrow",
        batch_size=batch_rows,
        num_gpus=gpus or None,
        num_cpus=None if gpus else 1,
        compute=ray.data.ActorPoolStrategy(
            min_size=workers or 1, max_size=workers or max(1, int(room))
        ),
    )


def picture_of(name: str, cell: Any) -> Picture:
    """Return the picture in a cell: bytes, or Hugging Face's structure of bytes and a path."""
    content = cell.get("bytes") if isinstance(cell, Mapping) else cell
    if not isinstance(content, bytes):
        return Picture(name, InputError(name, "no bytes of a picture"))
    return Picture(name, content)


def _read(picture: Picture) -> Photo | IdiscError:
    if isinstance(picture.content, IdiscError):
        return picture.content
    try:
        return read_photo(picture.content, Path(picture.key).name or picture.key)
    except Exception as error:
        return _as_value(picture.key, error)


def _as_value(name: str, error: Exception) -> IdiscError:
    """Return the error of a picture; even a bug must not end a job over millions of pictures."""
    if isinstance(error, IdiscError):
        return error
    return InputError(name, f"{type(error).__name__}: {first_line(error)}")


def _predict(
    predictor: Predictor, photos: Sequence[Photo | IdiscError], options: PredictOptions
) -> list[Prediction | IdiscError]:
    """Return a result for each photo, or its error; those of one size are predicted together."""
    found: dict[int, Prediction | IdiscError] = {}
    read = {index: photo for index, photo in enumerate(photos) if isinstance(photo, Photo)}
    if len(read) > 1:
        order = sorted(read, key=lambda index: read[index].size)
        try:
            together = predictor.predict_many([read[index] for index in order], options)
            found = dict(zip(order, together, strict=True))
        except Exception:  # one by one, to know which one failed
            found = {}
    for index, photo in enumerate(photos):
        if isinstance(photo, IdiscError):
            found[index] = photo
        elif index not in found:
            try:
                found[index] = predictor.predict(photo, options)
            except Exception as error:
                found[index] = _as_value(photo.name, error)
    return [found[index] for index in range(len(photos))]
