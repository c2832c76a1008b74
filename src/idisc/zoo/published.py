"""The thirteen released checkpoints: address, recipe, size and expected numbers.

Nothing here downloads them. They are licensed under CC BY-NC 4.0: not for commercial use.
"""

from __future__ import annotations

from dataclasses import dataclass

from idisc.configs import paper

LICENCE = "CC BY-NC 4.0"
HOME = "https://dl.cv.ethz.ch/idisc/checkpoints/"


@dataclass(frozen=True)
class Published:
    """One released file."""

    file: str
    recipes: tuple[str, ...]  # the first made it; the others evaluate it on another dataset
    parameters: float  # millions
    tensors: int  # in the file
    bytes: int  # of all tensors

    @property
    def address(self) -> str:
        """The address of the file."""
        return HOME + self.file

    @property
    def expected(self) -> dict[str, float]:
        """The metrics of the paper on the test split of its training dataset."""
        return paper.RESULTS[self.recipes[0]]


PUBLISHED: dict[str, Published] = {
    entry.file: entry
    for entry in (
        Published("nyu_resnet101.pt", ("nyu_r101",), 57.232, 950, 229_375_052),
        Published("nyu_effnetb5.pt", ("nyu_eb5",), 40.250, 1176, 161_714_636),
        Published("nyu_swintiny.pt", ("nyu_swint",), 38.975, 513, 156_154_292),
        Published("nyu_swinbase.pt", ("nyu_swinb",), 98.445, 681, 394_265_100),
        Published(
            "nyu_swinlarge.pt", ("nyu_swinl", "nyu_sunrgbd", "nyu_diode"), 207.190, 681, 829_243_772
        ),
        Published("nyunormals_swinlarge.pt", ("nyunorm_swinl",), 207.192, 681, 829_253_024),
        Published("kitti_resnet101.pt", ("kitti_r101",), 58.943, 982, 236_219_468),
        Published("kitti_effnetb5.pt", ("kitti_eb5",), 41.961, 1208, 168_559_052),
        Published("kitti_swintiny.pt", ("kitti_swint",), 40.686, 545, 162_998_708),
        Published("kitti_swinbase.pt", ("kitti_swinb",), 100.156, 713, 401_109_516),
        Published(
            "kitti_swinlarge.pt",
            ("kitti_swinl", "kitti_argo", "kitti_ddad"),
            208.901,
            713,
            836_088_188,
        ),
        Published("argo_swinlarge.pt", ("argo_swinl",), 208.901, 713, 836_088_188),
        Published("ddad_swinlarge.pt", ("ddad_swinl",), 207.387, 681, 830_033_276),
    )
}
