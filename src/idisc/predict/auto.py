"""AutoPredictor: chooses among the shipped models by the domain of each picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

from idisc.configs.schema import Precision
from idisc.errors import InputError
from idisc.images import Photo, PhotoSource, read_photo
from idisc.predict.open import open_model
from idisc.predict.options import PredictOptions
from idisc.predict.predictor import Predictor
from idisc.prediction import Prediction


class AutoPredictor(Predictor):
    """Predicts with the default model, or with the shipped model of the picture's domain."""

    def __init__(self, device: str, precision: Precision | None, pictures: int | None) -> None:
        open_engine = partial(open_model, device=device, precision=precision, pictures=pictures)
        super().__init__(open_engine())
        self._open = cache(lambda name: Predictor(open_engine(name)))

    def for_picture(self, source: PhotoSource | Photo) -> Predictor:
        """Return the predictor of the model for this picture."""
        (prediction,) = super()._predict_batch([read_photo(source)], PredictOptions())
        return self._better_predictor(prediction) or Predictor(self.engine)

    def _predict_batch(
        self, photos: Sequence[Photo], options: PredictOptions
    ) -> Iterator[Prediction]:
        plain = replace(options, scale_from=None)  # it belongs to one model
        for photo, prediction in zip(photos, super()._predict_batch(photos, plain), strict=True):
            if better := self._better_predictor(prediction):
                yield from better._predict_batch([photo], options)
                continue
            try:
                scaled = options.scaled(prediction)
            except InputError as error:
                raise error.within(photo.name) from None
            yield scaled

    def _better_predictor(self, prediction: Prediction) -> Predictor | None:
        """Return the predictor that a warning about the domain names."""
        for warning in prediction.provenance.warnings:
            if warning.code == "domain" and warning.details["model"]:
                return self._open(warning.details["model"])
        return None
