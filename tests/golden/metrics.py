"""The stored metrics and the images they were taken of, depth made by the rule, normals stored.

Torch-free, as the metrics are. `published` has, by batch size, the final values or the batch at
which the published code fails; `independent` the same by image and by pixel, in float64.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.golden import rule

from idisc.metrics import depth_terms, normal_terms

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared" / "golden" / "losses_metrics.json"
OURS = {  # names of normals metrics in these files, and ours
    "a1": "a5",
    "a2": "a7.5",
    "a3": "a11.5",
    "a4": "a22.5",
    "a5": "a30",
    "mean": "mean_deg",
    "median": "median_deg",
    "rmse_angular": "rmse_deg",
}


@dataclass(frozen=True)
class Case:
    """A few images with their metrics."""

    name: str
    facts: dict[str, Any]

    def __str__(self):
        return self.name

    @property
    def published(self):
        return {int(size): values for size, values in self.facts["published"].items()}

    @property
    def independent(self):
        values = self.facts["independent"]
        return {"image": values["per_image_mean"], "pixel": values["per_pixel"]}

    def images(self):
        make = self._depth if "kwargs" in self.facts else self._normals
        images = [make(index) for index in range(len(self.facts["images"]))]
        assert [terms.pixels for terms in images] == self.facts["valid"]
        return images

    def _depth(self, index):
        name, size = self.facts["images"][index], (self.facts["height"], self.facts["width"])
        options = self.facts["kwargs"]
        target = rule.depth_for(name, size, near=options["lo"], far=options["hi"])
        prediction = rule.perturbed_depth_for(name, target, options["amount"])
        valid = rule.mask_for(name, size, self.facts["keep"][index])
        return depth_terms(prediction[valid], target[valid])

    def _normals(self, index):
        stored = np.load(HERE / "normals_metrics.npz")
        valid = stored[f"{self.name}.mask"][index, 0]
        prediction, target = (stored[f"{self.name}.{side}"][index] for side in ("pred", "gt"))
        return normal_terms(prediction[:, valid].T, target[:, valid].T)  # (P, 3)


def cases(path=HERE / "metrics.json"):
    """All cases of a file: depth, then normals."""
    content = json.loads(path.read_text())
    kinds = (content["metrics_depth"], content["metrics_normals"])
    return [Case(name, facts) for kind in kinds for name, facts in kind.items()]
