"""Which domain a picture belongs to, judged by a linear probe on the encoder's class token.

A model trained on rooms also answers for a street, with metres that mean nothing. The class token
of a DINOv2 encoder tells the two apart, so a result can warn and name the model to use instead.
`zoo/scene.json` holds the probe; `docs/examples/fit_scene.py` fits it and measures its errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idisc import configs, files
from idisc.provenance import ModelInfo, Warning
from idisc.zoo import cards

PROBE = Path(cards.__file__).with_name("scene.json")
MIN_PROBABILITY = 0.9  # below it, a picture belongs to no domain for certain


@dataclass(frozen=True, kw_only=True)
class SceneProbe:
    """A linear classifier of class tokens."""

    domains: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]  # (domains, C)
    biases: tuple[float, ...]  # (domains,)

    def probabilities(self, token: NDArray[np.float32]) -> dict[str, float]:
        """Return the probability of each domain for a class token (C,)."""
        logits = np.array(self.weights) @ token + np.array(self.biases)
        shares = np.exp(logits - logits.max())
        return dict(zip(self.domains, (shares / shares.sum()).tolist(), strict=True))


@cache
def read_probe() -> SceneProbe:
    """Read the probe that ships with the package."""
    return configs.from_json(SceneProbe, files.read_json(PROBE), str(PROBE))


def check_domain(model: ModelInfo, task: str, token: NDArray[np.float32]) -> Warning | None:
    """Warn if a picture looks like another domain than that of the model.

    `task` is what the model predicts, by name, and `token` the class token (C,); one of another
    encoder is not judged.
    """
    probe = read_probe()
    if model.domain not in probe.domains or token.size != len(probe.weights[0]):
        return None
    probabilities = probe.probabilities(token)
    domain = max(probabilities, key=lambda name: probabilities[name])
    if domain == model.domain or probabilities[domain] < MIN_PROBABILITY:
        return None
    fitting = (
        card.name
        for card in cards.shipped().values()
        if card.domain == domain and card.model.task == task
    )
    details: dict[str, str | float | None] = {
        "domain": domain,
        "model_domain": model.domain,
        "probability": probabilities[domain],
        "model": next(fitting, None),  # the shipped model to use instead
    }
    return Warning(code="domain", details=details)
