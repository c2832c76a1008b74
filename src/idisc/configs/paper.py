"""The tables of the paper as data; its numbers are stated here only.

"iDisc: Internal Discretization for Monocular Depth Estimation", Piccinelli, Sakaridis, Yu, CVPR
2023. Depth errors are in metres unless a name says otherwise; shares are between 0 and 1.
"""

from __future__ import annotations

from typing import NamedTuple


class Complexity(NamedTuple):
    """One row of the complexity table: Swin-L, 640x480, on an RTX 3090."""

    latency_ms: float
    parameters: float  # millions


class Counts(NamedTuple):
    """The number of pictures in the splits of the paper; None if it uses or states none."""

    train: int | None = None
    test: int | None = None


COUNTS: dict[str, Counts] = {
    "nyu": Counts(24_231, 654),
    "nyu_normals": Counts(30_912, 654),
    "sunrgbd": Counts(test=5_050),
    "diode": Counts(test=325),
    "kitti": Counts(23_158, 652),
    "argoverse": Counts(21_672, 476),
    "ddad": Counts(18_380, 860),
}
"""Sizes of the splits by dataset; those of the normals are the lengths of the released lists."""


def _metrics(names: str, values: str) -> dict[str, float]:
    return dict(zip(names.split(), map(float, values.split()), strict=True))


_NYU = "d1 d2 d3 rmse abs_rel log10"
_KITTI = "d05 d1 d2 rmse rmse_log abs_rel sq_rel"
_ROAD = "d1 d2 d3 rmse rmse_log abs_rel sq_rel"
_ZERO_SHOT = "d1 rmse abs_rel silog"

RESULTS: dict[str, dict[str, float]] = {
    "nyu_r101": _metrics(_NYU, ".892 .983 .995 .380 .109 .046"),
    "nyu_eb5": _metrics(_NYU, ".903 .986 .997 .369 .104 .044"),
    "nyu_swint": _metrics(_NYU, ".894 .983 .996 .377 .109 .045"),
    "nyu_swinb": _metrics(_NYU, ".926 .989 .997 .327 .091 .039"),
    "nyu_swinl": _metrics(_NYU, ".940 .993 .999 .313 .086 .037"),
    "nyu_sunrgbd": _metrics(_ZERO_SHOT, ".838 .387 .128 10.91"),
    "nyu_diode": _metrics(_ZERO_SHOT, ".810 .721 .156 18.11"),
    "nyunorm_swinl": _metrics(
        "a11.5 a22.5 a30 rmse_deg mean_deg median_deg", ".638 .798 .856 22.8 14.6 7.3"
    ),
    "kitti_r101": _metrics(_KITTI, ".860 .965 .996 2.362 .090 .059 .197"),
    "kitti_eb5": _metrics(_KITTI, ".852 .963 .994 2.510 .094 .063 .223"),
    "kitti_swint": _metrics(_KITTI, ".870 .968 .996 2.291 .087 .058 .184"),
    "kitti_swinb": _metrics(_KITTI, ".885 .974 .997 2.149 .081 .054 .159"),
    "kitti_swinl": _metrics(_KITTI, ".896 .977 .997 2.067 .077 .050 .145"),
    "kitti_argo": _metrics(_ZERO_SHOT, ".560 12.18 .269 33.35"),
    "kitti_ddad": _metrics(_ZERO_SHOT, ".350 14.26 .367 29.37"),
    "argo_swinl": _metrics(_ROAD, ".821 .923 .960 7.567 .243 .163 2.22"),
    "ddad_swinl": _metrics(_ROAD, ".809 .934 .971 8.989 .221 .163 1.85"),
}
"""Reported metrics by recipe. nyu_diode is after rescaling with the mean of the ground truth."""

KITTI_BENCHMARK: dict[str, dict[str, float]] = {
    "kitti_swinl": _metrics("silog sq_rel_percent abs_rel_percent irmse", "9.89 1.77 8.11 10.73")
}
"""KITTI's online benchmark: its own 500 test pictures, whose ground truth is not public."""

CLOUDS: dict[str, dict[str, float]] = {
    "nyu_swinl": _metrics(
        "f1_0.05 f1_0.1 f1_0.2 f1_0.3 f1_0.5 f1_0.75 chamfer",
        ".278 .520 .770 .878 .955 .981 .131",
    )
}
"""Points in space on NYU: F1 scores at distances in metres as shares, chamfer distance."""

ABLATIONS: dict[str, dict[str, float]] = {
    name: _metrics("d1 rmse abs_rel", values)
    for name, values in {
        "none": ".890 .370 .104",
        "edd": ".905 .367 .102",
        "isd": ".919 .340 .096",
        "isd_afp": ".931 .319 .091",
        "edd_msda": ".931 .326 .091",
        "isd_msda": ".934 .319 .088",
        "random_afp": ".930 .319 .089",
        "full": ".940 .313 .086",
    }.items()
}
"""The eight rows of the ablation table (NYU, Swin-L); `recipes.ABLATIONS` makes the networks."""

COMPLEXITY: dict[str, Complexity] = {
    "encoder": Complexity(23.6, 194.9),
    "MSDA": Complexity(72.8, 2.83),
    "FPN": Complexity(2.7, 4.11),
    "AFP": Complexity(12.4, 2.78),
    "ISD": Complexity(9.6, 4.59),
    "total": Complexity(121.1, 209.2),
}
"""Appendix table. Its AFP row has more parameters than the released weights, which have 0.707 M."""
