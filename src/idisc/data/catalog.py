"""The facts about every dataset: the contents of its files, their framing, where it is scored.

This module states facts only. The evaluation protocol (`evaluate.protocols`) is the one place that
applies windows and ranges, so that every result can state which it used. Where the paper's text and
the released code differ, an entry follows the code; `find("ddad:paper")` is the text's variant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from idisc.camera import Camera
from idisc.configs import paper
from idisc.data import framing, masks
from idisc.data.decode import DepthMap, NormalMap, Target
from idisc.errors import lookup
from idisc.sizes import Size
from idisc.tasks import DEPTH, NORMALS, TASKS, Task

Intrinsics = tuple[float, float, float, float]
"""fx, fy, cx, cy in pixels."""


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """Facts about every frame of one dataset."""

    name: str
    title: str
    # Other titles, by an option of the preparation: {"depth=sweep": title}.
    titles: Mapping[str, str] = field(default_factory=dict)
    domain: Literal["indoor", "road", "any"]
    target: Target  # how the raw files, or those of published lists, store it
    normals: bool = False  # ground truth is the normals of planes fitted to the stored depth
    framing: framing.Framing  # stored frame -> what the network sees and what is scored
    size: Size | None  # of the picture in the network; None: as stored
    min_depth: float = 0.01  # metres; ground truth at or below it is ignored
    max_depth: float | None = None  # metres; the range the paper states
    capped: bool = True  # evaluation ignores ground truth at or beyond max_depth
    capped_training: bool = False  # so does training (in the paper's text, not in its code)
    window: masks.WindowRule | None = None  # the part of the image that is scored
    window_of_frame: bool = False  # the window is a share of the frame, so the crop matters
    eigen_window: masks.WindowRule | None = None  # an older window that is also in use
    windowed_training: bool = False  # training uses the window, too (SUN-RGBD, DIODE)
    # Rows at the lower edge that show the car itself, by sensor.
    hidden_rows: Mapping[str, int] = field(default_factory=dict)
    mean_rescaled: bool = False  # the paper rescales predictions to the mean of the ground truth
    cameras: Mapping[str, tuple[Intrinsics, Size]] = field(default_factory=dict)
    # Intrinsics for files without any: the first entry whose key is in the picture's path.
    list_column: int = 1  # the field of the target in a line of a published list
    published_batch: int = 8  # batch size of the released code's evaluation (with Swin-L)
    counts: paper.Counts = field(default_factory=paper.Counts)
    comparable_to: str = ""  # another dataset whose published results are comparable
    licence: str
    non_commercial: bool = False  # the licence excludes commercial use
    home: str

    @property
    def published_as(self) -> str:
        """The name of the dataset whose published results are comparable."""
        return self.comparable_to or self.name.partition(":")[0]

    @property
    def task(self) -> Task:
        """The task of its ground truth."""
        return NORMALS if self.normals else TASKS[self.target.kind]

    def camera_of(self, picture: str, size: Size | None = None) -> Camera | None:
        """Return the camera stated for the picture with this path; None if there is none.

        It is for pictures of `size`, which is by default the size that the camera is stated for.
        """
        for key, ((fx, fy, cx, cy), stated) in self.cameras.items():
            if key in picture:
                camera = Camera(fx=fx, fy=fy, cx=cx, cy=cy, size=stated, origin=self.title)
                return camera if size in (None, stated) else camera.resized(size)
        return None


MILLIMETRES = DepthMap(metres_per_unit=1 / 1000)
KITTI_UNITS = DepthMap(metres_per_unit=1 / 256)
_VGA = (480, 640)
_NYU_CAMERA = {"": ((518.85790117, 519.46961112, 325.58244941, 253.73616633), _VGA)}
_NYU_HOME = "https://cs.nyu.edu/~fergus/datasets/nyu_depth_v2.html"

NYU = DatasetSpec(
    name="nyu",
    title="NYU-Depth v2",
    domain="indoor",
    target=MILLIMETRES,
    framing=framing.top_left,
    size=_VGA,
    max_depth=10.0,
    window=masks.eigen_indoor,
    cameras=_NYU_CAMERA,
    counts=paper.COUNTS["nyu"],
    licence="for research, no licence text",
    home=_NYU_HOME,
)

NYU_LABELLED = replace(
    NYU,
    name="nyu_labelled",
    title="NYU-Depth v2, labelled set (in-painted depth)",
    titles={"nyu_depth=raw": "NYU-Depth v2, labelled set (the sensor's depth, with holes)"},
    framing=partial(framing.resized, size=_VGA),  # reduced copies are in use, too
    counts=paper.Counts(test=654),
    comparable_to="nyu",  # the same 654 pictures, but the paper scores on depth with holes
)

NYU_NORMALS = DatasetSpec(
    name="nyu_normals",
    title="NYU-Depth v2, surface normals",
    domain="indoor",
    target=NormalMap(),
    framing=framing.picture_top_left,
    size=_VGA,
    cameras=_NYU_CAMERA,
    list_column=2,
    published_batch=16,
    counts=paper.COUNTS["nyu_normals"],
    licence="for research, no licence text",
    home="https://github.com/xjqi/GeoNet",
)

SUNRGBD = DatasetSpec(
    name="sunrgbd",
    title="SUN RGB-D",
    domain="indoor",
    target=DepthMap(metres_per_unit=1 / 1000, rotated_bits=3),
    framing=framing.covering,
    size=_VGA,
    max_depth=10.0,
    capped=False,  # the paper says 10 m, the code has no upper bound
    window=masks.eigen_indoor,
    windowed_training=True,
    counts=paper.COUNTS["sunrgbd"],
    licence="for research, no licence text",
    home="https://rgbd.cs.princeton.edu",
)

DIODE = DatasetSpec(
    name="diode",
    title="DIODE, indoor",
    titles={
        "diode_part=outdoor": "DIODE, outdoor",
        "diode_part=both": "DIODE, indoor and outdoor",
    },
    domain="indoor",
    target=KITTI_UNITS,
    framing=framing.reduced,
    size=_VGA,
    max_depth=10.0,
    capped=False,  # as for SUN RGB-D
    window=masks.eigen_indoor,
    windowed_training=True,
    mean_rescaled=True,
    cameras={"": ((886.81, 927.06, 512.0, 384.0), (768, 1024))},
    counts=paper.COUNTS["diode"],
    licence="MIT",
    home="https://diode-dataset.org",
)

KITTI = DatasetSpec(
    name="kitti",
    title="KITTI, Eigen split, annotated depth",
    titles={"depth=sweep": "KITTI, Eigen split, depth of single sweeps"},
    domain="road",
    target=KITTI_UNITS,
    framing=framing.bottom_middle,
    size=(352, 1216),
    max_depth=80.0,
    window=masks.garg,
    window_of_frame=True,
    eigen_window=masks.eigen_road,
    cameras={  # left part of P_rect_02, by date
        "2011_09_26": ((721.5377, 721.5377, 609.5593, 172.8540), (375, 1242)),
        "2011_09_28": ((707.0493, 707.0493, 604.0814, 180.5066), (370, 1224)),
        "2011_09_29": ((718.3351, 718.3351, 600.3891, 181.5122), (374, 1238)),
        "2011_09_30": ((707.0912, 707.0912, 601.8873, 183.1104), (370, 1226)),
        "2011_10_03": ((718.8560, 718.8560, 607.1928, 185.2157), (376, 1241)),
    },
    counts=paper.COUNTS["kitti"],
    licence="CC BY-NC-SA 3.0",
    non_commercial=True,
    home="https://www.cvlibs.net/datasets/kitti",
)

ARGOVERSE = DatasetSpec(
    name="argoverse",
    title="Argoverse 1.1, tracking",
    domain="road",
    target=KITTI_UNITS,
    framing=framing.argoverse,
    size=(580, 1280),
    max_depth=150.0,
    published_batch=4,
    counts=paper.COUNTS["argoverse"],
    licence="CC BY-NC-SA 4.0",
    non_commercial=True,
    home="https://www.argoverse.org/av1.html",
)

DDAD = DatasetSpec(
    name="ddad",
    title="DDAD",
    domain="road",
    target=KITTI_UNITS,
    framing=framing.ddad,
    size=(580, 1280),
    max_depth=150.0,
    hidden_rows={"CAMERA_09": 140},  # the camera that looks back sees its own car
    published_batch=4,
    counts=paper.COUNTS["ddad"],
    licence="CC BY-NC-SA 4.0",
    non_commercial=True,
    home="https://github.com/TRI-ML/DDAD",
)

FOLDER = DatasetSpec(
    name="folder",
    title="your own pictures",
    domain="any",
    target=MILLIMETRES,
    framing=framing.whole,
    size=None,
    licence="yours",
    home="docs/data.md",
)

SYNTHETIC = DatasetSpec(
    name="synthetic",
    title="rendered rooms and streets",
    domain="any",
    target=MILLIMETRES,
    framing=framing.whole,
    size=None,
    max_depth=10.0,  # in rooms
    capped=False,  # streets extend to 60 m, and all depth is exact
    licence="Apache-2.0, made by idisc",
    home="docs/data.md",
)

SYNTHETIC_NORMALS = replace(
    SYNTHETIC,
    name="synthetic_normals",
    title="rendered rooms and streets, surface normals",
    target=NormalMap(),
    max_depth=None,
)

_INDOOR = (NYU, NYU_LABELLED, NYU_NORMALS, SUNRGBD, DIODE)
_ROAD = (KITTI, ARGOVERSE, DDAD)
_ANY = (FOLDER, SYNTHETIC, SYNTHETIC_NORMALS)
DATASETS: dict[str, DatasetSpec] = {spec.name: spec for spec in (*_INDOOR, *_ROAD, *_ANY)}


def find(name: str) -> DatasetSpec:
    """Return a dataset by name.

    `name:paper` is the variant of the paper's text, `name:normals` that with normals from depth.
    """
    plain, colon, variant = name.partition(":")
    spec = lookup(DATASETS, plain, "dataset")
    if not colon:
        return spec
    variants = {"paper": as_in_paper, "normals": with_normals}
    return lookup(variants, variant, f"{name}: variant")(spec)


def name_for_task(name: str, task: Task) -> str:
    """Return the variant of a dataset that has the ground truth of a task, if there is one.

    Depth datasets serve networks for normals, too; `name` itself is returned in all other cases.
    """
    return f"{name}:normals" if task == NORMALS and find(name).task == DEPTH else name


def with_normals(spec: DatasetSpec) -> DatasetSpec:
    """Return the same pictures, with normals of planes fitted to their depth as ground truth."""
    if spec.task == NORMALS:
        return spec
    return replace(
        spec,
        name=f"{spec.name}:normals",
        title=f"{spec.title}, normals of planes fitted to the depth",
        normals=True,
        max_depth=None,
        capped_training=False,
        comparable_to="",
    )


def as_prepared(spec: DatasetSpec, prepared: Mapping[str, Any]) -> DatasetSpec:
    """Return the dataset with the title that belongs to the options of its preparation."""
    choices = {f"{name}={value}" for name, value in prepared.get("choices", {}).items()}
    title = next((spec.titles[choice] for choice in spec.titles if choice in choices), None)
    return replace(spec, title=title) if title else spec


def as_in_paper(spec: DatasetSpec) -> DatasetSpec:
    """Return the variant of the paper's text: its depth range everywhere, and its crop of DDAD."""
    return replace(
        spec,
        name=f"{spec.name}:paper",
        framing=framing.ddad_paper if spec.name == "ddad" else spec.framing,
        capped=True,
        capped_training=True,
    )
