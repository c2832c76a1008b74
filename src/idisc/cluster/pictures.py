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

BATCH_ROWS = 16  # of `predict`: the files of 16 photos have about 50 MB


class Picture(NamedTuple):
    """A picture to predict."""

    key: str  # identifies its row
    content: bytes | IdiscError  # of its file, or the error of reading it
    name: str = ""  # of its results, without suffix; "": derived from the key


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
        """Open the network on a device."""
        return load(self.model, device, self.precision, self.convention)

    @cached_property
    def predictor(self) -> Predictor:
        """The predictor of this worker."""
        return self.load(self.device)

    def __call__(self, batch: pa.Table | Mapping[str, Any]) -> pa.Table:
        """Return the batch with the columns of results, and without the pictures."""
        if not isinstance(batch, pa.Table):
            batch = pa.table({name: pa.array(list(values)) for name, values in batch.items()})
        if self.column not in batch.column_names:
            columns = ", ".join(batch.column_names)
            raise InputError(f"column {self.column}", f"not in the table, which has {columns}")
        names = batch[self.key].to_pylist() if self.key else range(len(batch))
        cells = batch[self.column].to_pylist()
        pictures = (picture_of(str(name), cell) for name, cell in zip(names, cells, strict=True))
        new_rows = [rows.row_of(result) for _, result in self.predict(pictures)]
        results = pa.Table.from_pylist(new_rows, rows.RESULTS)
        batch = batch.drop_columns([self.column])
        for field in rows.RESULTS:
            batch = batch.append_column(field, results[field.name])
        return batch

    def predict(
        self, pictures: Iterable[Picture]
    ) -> Iterator[tuple[Picture, Prediction | IdiscError]]:
        """Yield each picture with its prediction or its error, in their order.

        On a GPU, pictures of one size are predicted in batches. On a CPU they are predicted one by
        one, so that the results are those of `idisc predict` to the last bit.
        """
        options = copy.deepcopy(self.options)  # the rule of a camera has a state
        stream, group_size = iter(pictures), 1 if self.device == "cpu" else 2 * BATCH
        while group := list(islice(stream, group_size)):
            results: list[Any] = [_read(picture) for picture in group]
            read = [index for index, photo in enumerate(results) if isinstance(photo, Photo)]
            read.sort(key=lambda index: results[index].size)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", IdiscWarning)  # the provenance has them
                found = _predict(self.predictor, [results[index] for index in read], options)
            for index, result in zip(read, found, strict=True):
                results[index] = result
            yield from zip(group, results, strict=True)


def predict(
    dataset: Dataset,
    model: str | Path | None = None,
    *,
    gpus: float = 0,
    workers: int | None = None,
    batch_rows: int = BATCH_ROWS,
    **options: Any,
) -> Dataset:
    """Return a lazy Ray dataset with depth for the pictures of another dataset.

    `gpus` is the number of GPUs per worker, `workers` is the number of workers (by default as many
    as fit), and `options` are arguments of `DepthPredictor`.
    """
    import ray.data

    if gpus:
        options.setdefault("device", "cuda")
    resources = ray.cluster_resources()
    room = resources.get("GPU", 0) / gpus if gpus else resources.get("CPU", 1)
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
    """Return the picture in a cell: bytes, or bytes and a path as Hugging Face stores them."""
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
    predictor: Predictor, photos: Sequence[Photo], options: PredictOptions
) -> list[Prediction | IdiscError]:
    """Return predictions; if a batch fails, each photo is predicted alone, or has its error."""
    try:
        if len(photos) == 1:
            return [predictor.predict(photos[0], options)]
        return list(predictor.predict_many(photos, options))
    except Exception as error:
        if len(photos) == 1:
            return [_as_value(photos[0].name, error)]
        return [_predict(predictor, [photo], options)[0] for photo in photos]
