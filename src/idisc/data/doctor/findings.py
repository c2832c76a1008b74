"""Findings of the doctor. `RULES` has a row for each code; docs/data.md explains them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Severity = Literal["error", "warning"]
_MAX_EXAMPLES = 3  # files that are named in a line


class Rule(NamedTuple):
    """How a problem is reported."""

    severity: Severity
    subject: str  # what is counted
    remedy: str


_INTRINSICS = "give fx, fy, cx, cy of the stored size, in pixels"
_PAIR_AGAIN = "pair them again"
_NO_VALUE = "they count as no value; write 0 instead"
_MISSING = "add them, remove their pairs, or prepare the dataset again"
_INVERTED = "convert to metres if near is large in them"
_SCALE = "set depth_scale in a CSV, pass their --dataset, or prepare the dataset again"
_CAMERA = (
    "point clouds (evaluate --clouds) need fx, fy, cx, cy: columns of a CSV, or"
    " NAME_intrinsics.json next to NAME_test.txt"
)

RULES = {
    "missing": Rule("error", "files that do not exist or are empty", _MISSING),
    "no_target": Rule("warning", "images without ground truth", "they cannot be used"),
    "damaged": Rule("error", "files that cannot be read", "get them again"),
    "changed": Rule("error", "files changed since the preparation", "prepare the dataset again"),
    "swapped": Rule("error", "pairs with image and depth swapped", "swap columns or folder names"),
    "picture": Rule("error", "images without 8 bits per channel", "save them as RGB"),
    "bits": Rule("error", "8-bit or coloured depth maps", "save metres again as 16-bit PNG or NPY"),
    "framing": Rule("error", "images too small for the crop", "pass another --dataset"),
    "size": Rule("error", "images of another size than stated", "prepare the dataset again"),
    "centre": Rule("error", "cameras with an impossible principal point", _INTRINSICS),
    "angle": Rule("warning", "cameras with an implausible field of view", _INTRINSICS),
    "empty": Rule("error", "depth maps without a valid pixel", "remove them, or check the scale"),
    "sparse": Rule("warning", "depth maps with under 0.1 % valid pixels", "check them"),
    "constant": Rule("error", "depth maps with one value everywhere", "remove the pairs"),
    "undefined": Rule("warning", "depth maps with NaN or infinite values", _NO_VALUE),
    "negative": Rule("warning", "depth maps with negative values", _NO_VALUE),
    "inverted": Rule("warning", "depth maps that look like inverse depth", _INVERTED),
    "scale": Rule("error", "depth maps with an implausible median", _SCALE),
    "range": Rule("warning", "depth maps outside the dataset's range", _SCALE),
    "unlikely": Rule("warning", "depth maps with an unlikely median", _SCALE),
    "unit": Rule("error", "depth maps in another unit than the others", "write all in one unit"),
    "shape": Rule("error", "pairs that differ in aspect ratio", "crop or rotate both alike"),
    "names": Rule("warning", "pairs with different numbers in their names", "check the list"),
    "repeated": Rule("warning", "pairs listed more than once", "each counts once"),
    "turned": Rule("error", "flipped depth maps", "flip them back, or the images"),
    "offset": Rule("error", "depth maps that fit an image nearby in the list", _PAIR_AGAIN),
    "pairs": Rule("warning", "depth maps that fit another image better", _PAIR_AGAIN),
    "edges": Rule("warning", "depth maps without the edges of the image", "check the pairs"),
    "shift": Rule("error", "depth maps shifted against the image", "crop both alike"),
    "unsplit": Rule("warning", "images used for both training and testing", "add splits"),
    "splits": Rule("error", "images in both train and test", "remove them from one split"),
    "swapped_lists": Rule("error", "train and test are those of the paper swapped", "swap them"),
    "large_test": Rule("warning", "test has more images than train", "check the lists"),
    "scenes": Rule("error", "images of scenes in both splits", "keep a scene in one split"),
    "copies": Rule("error", "test images that are in train", "remove them from one split"),
    "lookalikes": Rule("warning", "test images that look like one of train", "split by scene"),
    "camera": Rule("warning", "images without intrinsics", _CAMERA),
}


@dataclass(frozen=True)
class Finding:
    """One problem and all files that have it."""

    code: str  # a key of RULES
    files: tuple[str, ...] = ()
    total: int | None = None  # how many were checked
    examples: tuple[str, ...] = ()  # shown in place of the files: "b.png = a.png"
    details: Mapping[str, float | str] = field(default_factory=dict)
    own_severity: Severity | None = None  # in place of the rule's

    @property
    def severity(self) -> Severity:
        """The severity of the rule, unless the finding has its own."""
        return self.own_severity or RULES[self.code].severity

    def describe(self) -> str:
        """Render the finding as one line: subject, counts, examples, details, remedy."""
        rule = RULES[self.code]
        text = rule.subject
        if self.files:
            names = self.examples or self.files
            more = ", ..." if len(names) > _MAX_EXAMPLES else ""
            text += f": {len(self.files):,}{f' of {self.total:,}' if self.total else ''}"
            text += f" ({', '.join(names[:_MAX_EXAMPLES])}{more})"
        details = ", ".join(
            f"{name}: {value if isinstance(value, str) else f'{value:.6g}'}"
            for name, value in self.details.items()
        )
        return "; ".join(part for part in (text, details, rule.remedy) if part)
