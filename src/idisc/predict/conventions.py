"""CONVENTIONS: how third-party depth networks expect pictures, and what their numbers mean.

A convention is data: layout, size, normalisation and colours of the input, the meaning of the
output, and whether a camera is needed. `convention_choice` finds that of a file, and
`convention_engine` applies it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from idisc.ancestry import UNKNOWN, Ancestry
from idisc.errors import InputError
from idisc.provenance import Unit
from idisc.sizes import Border, Resize, Size, Sizing

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = (0.5, 0.5, 0.5)


@dataclass(frozen=True, kw_only=True)
class Signature:
    """How graphs of a convention are recognised; an empty field fits everything."""

    inputs: tuple[str, ...] = ()  # names that the picture may have
    outputs: tuple[str, ...] = ()  # names that must be there
    sizes: tuple[tuple[int, ...], ...] = ()  # of the picture, one of which must be fixed


@dataclass(frozen=True, kw_only=True)
class Convention:
    """The convention of a depth network; the fields of a card are the same."""

    name: str = "card"
    title: str = ""  # of the network
    # Input: (bytes / divisor - mean) / std
    layout: Literal["nchw", "nhwc"] = "nchw"
    colours: Literal["rgb", "bgr"] = "rgb"
    divisor: float = 255.0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    sizing: Sizing  # a graph with a fixed size has that one
    resize: Resize = "smooth"  # of pictures to that size
    # reflect: 3 sqrt(side / 2) mirrored pixels on each side. letterbox: bars in a mean colour give
    # the picture the aspect ratio of the network.
    padding: Literal["none", "reflect", "letterbox"] = "none"
    # Output: `disparity` is 1 / depth up to an unknown scale and shift, the others are metric
    output: Literal["metres", "inverse_depth", "disparity", "log_depth"]
    output_name: str = ""  # of the tensor; "": the first one
    channel: int = 0  # of a tensor (B, C, H, W)
    factor: float = 1.0  # of the numbers of the tensor, before they are read as `output`
    interpolation: Literal["corners", "linear", "cubic"] = "linear"  # of the output
    # Camera: depth times the focal length in the network, over this one, in pixels or widths
    canonical_focal: float | None = None
    focal_unit: Literal["pixel", "width"] = "pixel"
    fov_output: str = ""  # tensor with the field of view in degrees, used if no camera is known
    camera_input: str = ""  # name of the tensor that takes the camera
    camera: Literal["matrix", "rays"] = "matrix"  # (B, 3, 3), or unit vectors (B, 3, H, W)
    # Facts
    domain: str = UNKNOWN  # indoor, road, any
    depth_range: tuple[float, ...] = ()  # metres
    data: str = ""  # training data
    licence: str = ""  # of the weights
    non_commercial: bool = False
    signatures: tuple[Signature, ...] = ()  # of the files that are published, any of which may fit

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            if len(getattr(self, name)) != 3:
                raise InputError(name, "three numbers are needed, one for each colour")
        if min(self.std) <= 0 or self.divisor <= 0 or self.factor == 0:
            raise InputError("divisor, std, factor", "numbers above 0 are needed")
        if self.depth_range and not 0 <= self.depth_range[0] < self.depth_range[-1]:
            raise InputError("depth_range", f"{self.depth_range} is not two rising distances")

    @property
    def unit(self) -> Unit:
        """Whether the answers are metres, or relative."""
        return "relative" if self.output == "disparity" else "metre"

    @property
    def uses_camera(self) -> bool:
        """Whether the answer depends on the camera."""
        return bool(self.camera_input) or self.canonical_focal is not None

    @property
    def origin(self) -> dict[str, Any]:
        """What is known about the network; `model_info` reads it."""
        low_high = (self.depth_range[0], self.depth_range[-1]) if self.depth_range else None
        return Ancestry(
            domain=self.domain,
            depth_range=low_high,
            data=(self.data,) if self.data else (),
            licence=(self.licence,) if self.licence else (),
            non_commercial=self.non_commercial,
        ).to_json()

    def border(self, picture: Size, network: Size) -> Border:
        """Return what is added around a picture before it is resized to the network's size."""
        if self.padding == "reflect":
            down, across = (min(int((side / 2) ** 0.5 * 3), side - 1) for side in picture)
            return Border(down, down, across, across)
        if self.padding == "letterbox":
            rows = max(0, round(picture[1] * network[0] / network[1]) - picture[0])
            columns = max(0, round(picture[0] * network[1] / network[0]) - picture[1])
            return Border(rows // 2, rows - rows // 2, columns // 2, columns - columns // 2)
        return Border()


_HUB = Signature(inputs=("pixel_values",), outputs=("predicted_depth",))
_DEPTH_ANYTHING = Convention(
    name="depth-anything-v2",
    title="Depth Anything V2, relative",
    mean=IMAGENET_MEAN,
    std=IMAGENET_STD,
    sizing=Sizing(kind="least", size=(518, 518), multiple=14),
    resize="bicubic",
    output="disparity",
    interpolation="cubic",
    domain="any",
    signatures=(Signature(inputs=("pixel_values", "image", "input", "l_x_")),),
)
_UNIDEPTH = Convention(
    name="unidepth",
    title="UniDepth V2",
    mean=IMAGENET_MEAN,
    std=IMAGENET_STD,
    sizing=Sizing(kind="area", size=(462, 630), multiple=14),
    padding="letterbox",
    output="metres",
    output_name="pts_3d",
    channel=2,  # x, y, z
    camera_input="rays",
    camera="rays",
    domain="any",
    licence="CC BY-NC 4.0",
    non_commercial=True,
    signatures=(Signature(inputs=("rgbs",), outputs=("pts_3d",)),),
)
_ROWS = (
    _DEPTH_ANYTHING,
    replace(
        _DEPTH_ANYTHING,
        name="depth-anything-v2-indoor",
        title="Depth Anything V2, metric, indoor",
        output="metres",
        domain="indoor",
        depth_range=(0.001, 20.0),
        data="Hypersim",
    ),
    replace(
        _DEPTH_ANYTHING,
        name="depth-anything-v2-outdoor",
        title="Depth Anything V2, metric, outdoor",
        output="metres",
        domain="road",
        depth_range=(0.001, 80.0),
        data="Virtual KITTI 2",
    ),
    Convention(
        name="dpt",
        title="DPT (MiDaS 3)",
        mean=HALF,
        std=HALF,
        sizing=Sizing(kind="least", size=(384, 384), multiple=32),
        resize="bicubic",
        output="disparity",
        interpolation="cubic",
        domain="any",
        licence="MIT",
        signatures=(_HUB,),
    ),
    Convention(
        name="midas",
        title="MiDaS 2.1, whose ONNX files normalise by themselves",
        sizing=Sizing(kind="stretch", size=(384, 384)),  # 256x256 for the small one
        resize="bicubic",
        output="disparity",
        interpolation="cubic",
        domain="any",
        licence="MIT",
        signatures=(Signature(inputs=("0", "input.1"), sizes=((256, 256), (384, 384))),),
    ),
    Convention(
        name="zoedepth",
        title="ZoeDepth",
        mean=HALF,
        std=HALF,
        sizing=Sizing(kind="least", size=(384, 512), multiple=32),
        resize="corners",
        padding="reflect",
        output="metres",
        interpolation="cubic",
        domain="any",
        data="NYU-Depth v2, KITTI",
        licence="MIT",
        signatures=(_HUB,),
    ),
    Convention(
        name="depth-pro",
        title="Depth Pro",
        mean=HALF,
        std=HALF,
        sizing=Sizing(kind="stretch", size=(1536, 1536)),
        resize="bilinear",
        output="inverse_depth",
        canonical_focal=1.0,
        focal_unit="width",
        fov_output="field_of_view",
        domain="any",
        signatures=(replace(_HUB, outputs=("predicted_depth", "field_of_view")),),
    ),
    Convention(
        name="metric3d",
        title="Metric3D v2, whose ONNX files normalise by themselves",
        divisor=1.0,
        sizing=Sizing(kind="stretch", size=(616, 1064)),
        resize="bilinear",
        padding="letterbox",
        output="metres",
        canonical_focal=1000.0,
        domain="any",
        licence="BSD-2-Clause",
        signatures=(
            replace(_HUB, outputs=("predicted_depth", "predicted_normal")),
            Signature(inputs=("image",), outputs=("pred_depth",), sizes=((616, 1064), (544, 1216))),
        ),
    ),
    _UNIDEPTH,
    replace(
        _UNIDEPTH,
        name="unidepth-matrix",
        title="UniDepth V2, exported with the matrix of the camera",
        output_name="depth",
        channel=0,
        camera_input="K",
        camera="matrix",
        signatures=(Signature(inputs=("image",), outputs=("depth", "depth_ssi")),),
    ),
    Convention(
        name="fastdepth",
        title="FastDepth",
        sizing=Sizing(kind="stretch", size=(224, 224)),
        output="metres",
        domain="indoor",
        depth_range=(0.001, 10.0),
        data="NYU-Depth v2",
        licence="MIT",
        signatures=(Signature(sizes=((224, 224),)),),
    ),
    Convention(
        name="glpn",
        title="GLPN",
        sizing=Sizing(kind="own", multiple=32),
        output="metres",
        interpolation="cubic",
        signatures=(_HUB,),
    ),
)
CONVENTIONS: dict[str, Convention] = {row.name: row for row in _ROWS}
