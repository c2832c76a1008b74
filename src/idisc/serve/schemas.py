"""The JSON of the API, as its OpenAPI description tells it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Format = Literal["png16", "npy", "npz", "ply", "glb", "json"]
"""What POST /predict answers with."""
Download = Literal["png", "png16", "npy", "npz", "ply", "glb", "normals"]
"""What there is of a result that is kept."""
Size = Annotated[list[int], Field(min_length=2, max_length=2)]
Rgb = Annotated[list[int], Field(min_length=3, max_length=3)]
Span = Annotated[list[float], Field(min_length=2, max_length=2)]
Intrinsics = Annotated[list[float], Field(min_length=4, max_length=4)]
Tick = Annotated[list[float | str], Field(min_length=2, max_length=2)]


class Problem(BaseModel):
    """What went wrong."""

    error: str = Field(description="One line: what is wrong, and what to do")


class Health(BaseModel):
    """How the server is."""

    status: Literal["ok"]
    version: str
    model: str
    domain: str = Field(description="What the model learnt: indoor, road, any, unknown")
    waiting: int = Field(description="Requests at work or waiting")
    places: int = Field(description="For how many there is room; more are answered 429")
    typical_s: float = Field(description="How long a prediction takes once it is its turn")
    upload_mb: float
    megapixels: float
    explorer_missing: str = Field(description="Why IDRs cannot be looked at; empty if they can")


class Example(BaseModel):
    """A photo to try."""

    file: str
    title: str


class Examples(BaseModel):
    """All of them."""

    photos: list[Example]
    credits: str = Field(description="File that says whose they are; empty if there is none")


class CameraInfo(BaseModel):
    """Of the upright picture, in pixels."""

    fx: float
    fy: float
    cx: float
    cy: float
    size: Size = Field(description="Height and width")
    origin: str = Field(description="Where the numbers come from: EXIF, given, assumed")


class DepthSummary(BaseModel):
    """Metres along the optical axis."""

    low: float = Field(description="2 % of the pixels are nearer")
    median: float
    high: float = Field(description="2 % of the pixels are farther")


class Result(BaseModel):
    """A prediction in short; the rest is under /results/{result}."""

    format: Literal["idisc/1"]
    result: str = Field(description="Secret name of the result; who has it can read the result")
    kept_s: float = Field(description="For how long, after it was last asked for")
    depth_m: DepthSummary
    camera: CameraInfo
    facts: dict[str, str] = Field(description="Model, domain, camera, rescaling, warnings")


class Packed(BaseModel):
    """Depth of every n-th pixel: base64 of deflated 16-bit differences along each row."""

    metres_per_unit: float
    depth: str


class View(Packed):
    """What the page shows of a result."""

    name: str
    scale: float = Field(description="By how much a known distance enlarged the scene")
    size: Size = Field(description="Height and width of the picture")
    grid: Size = Field(description="Height and width of what is inside")
    first: int = Field(description="Row and column of its first pixel")
    step: int = Field(description="Pixels of the picture from one to the next")
    camera: Intrinsics = Field(description="fx, fy, cx, cy of the grid")
    limits: Span = Field(description="Metres at both ends of the colours")
    ticks: list[Tick]
    empty: Rgb
    colours: str
    edges: str
    photo: str = Field(description="The picture as a data: address")
    facts: dict[str, str]


class LevelInfo(BaseModel):
    """One resolution of the network."""

    stride: int
    size: Size
    idrs: int
    attention_peak: float = Field(description="What byte 255 of its attention maps means")
    partition_peak: float = Field(description="The same of its partition; 0: there is none")
    dominant: list[float] = Field(description="Share of the pixels that each IDR has most of")


class Explained(BaseModel):
    """The IDRs of a picture in short; the maps are under /results/{result}/maps."""

    result: str
    kept_s: float
    maps: Size = Field(description="Height and width of every map")
    quantiles: Span = Field(description="Of a map, between which it is shown")
    least_range: float = Field(description="Of a map's weights; what varies by less is shown flat")
    levels: list[LevelInfo] = Field(description="Coarse to fine")
    depth: Packed = Field(description="With all IDRs, on the grid of the view")
    change_colours: str = Field(description="256 RGB for changes, base64")


class Mute(BaseModel):
    """Which IDRs to leave out."""

    model_config = ConfigDict(extra="forbid")

    muted: dict[int, Annotated[list[int], Field(max_length=512)]] = Field(
        description="Numbers of IDRs by level, 0 the coarsest", max_length=8
    )
    known: str | None = Field(None, max_length=200, description="As for the view")


class Muted(BaseModel):
    """Depth without some IDRs."""

    depth: Packed
    change: Packed = Field(description="What depth changes by, above change_from_m")
    change_from_m: float = Field(description="Its least value; below 0 something comes nearer")
    mean_m: float = Field(description="Mean size of the change")
    largest_m: float = Field(description="Its 99th percentile")


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "Not a picture, or a value that makes no sense"},
    403: {"model": Problem, "description": "Sent from another web page, or to another name"},
    404: {"model": Problem, "description": "Not there, or not any more"},
    405: {"model": Problem, "description": "Not a method of this address"},
    408: {"model": Problem, "description": "The upload took too long"},
    413: {"model": Problem, "description": "Too many bytes or too many pixels"},
    415: {"model": Problem, "description": "A picture that is not in a form"},
    422: {"model": Problem, "description": "A field is missing, unknown or of the wrong kind"},
    429: {"model": Problem, "description": "Too many are waiting; Retry-After says when to ask"},
    500: {
        "model": Problem,
        "description": "The network answers with no depth, or a mistake of ours",
    },
    503: {"model": Problem, "description": "No answer in time; Retry-After says when to ask"},
}
