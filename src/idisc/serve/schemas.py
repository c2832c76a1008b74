"""The JSON of the API, which its OpenAPI schema describes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from idisc.provenance import SizeReason, Unit, WarningCode
from idisc.serve.service import WEB_FORMATS


def _choice(*names: str) -> Any:
    """Return a Literal of names from a table, which cannot be written as `Literal[...]`."""
    return Literal.__getitem__(names)


Download = _choice(*WEB_FORMATS)
"""The formats of a result."""
Format = _choice(*WEB_FORMATS, "json")
"""The formats of the answer of POST /predict."""
Size = Annotated[list[int], Field(min_length=2, max_length=2)]
Rgb = Annotated[list[int], Field(min_length=3, max_length=3)]
Span = Annotated[list[float], Field(min_length=2, max_length=2)]
Intrinsics = Annotated[list[float], Field(min_length=4, max_length=4)]
Tick = Annotated[list[float | str], Field(min_length=2, max_length=2)]


class Problem(BaseModel):
    """An error."""

    error: str = Field(description="One line: what is wrong, and what to do")


class Health(BaseModel):
    """The state of the server."""

    status: Literal["ok"]
    version: str
    model: str
    domain: str = Field(description="Domain of the training data: indoor, road, any, unknown")
    waiting: int = Field(description="Running and waiting requests")
    slots: int = Field(description="Maximum of running and waiting requests; others get 429")
    typical_s: float = Field(description="Duration of a prediction, without waiting")
    upload_mb: float
    megapixels: float
    explorer_missing: str = Field(description="Why there are no IDRs; empty if there are")


class Example(BaseModel):
    """An example photo."""

    file: str
    title: str


class Examples(BaseModel):
    """All example photos."""

    photos: list[Example]
    credits: str = Field(description="File with their credits; empty if there is none")


KNOWN_DISTANCE_FORMAT = (
    "Two points and their distance, x1,y1 x2,y2 = 2.40m; several are separated by semicolons"
)


class CameraInfo(BaseModel):
    """The camera of the upright picture, in pixels."""

    fx: float
    fy: float
    cx: float
    cy: float
    size: Size = Field(description="Height and width")
    origin: str = Field(description="Where the numbers come from: EXIF, given, assumed")


class WarningInfo(BaseModel):
    """A reason why the scale may be wrong."""

    code: WarningCode
    details: dict[str, Any]
    message: str = Field(description="The warning as a sentence with its remedy")


class Provenance(BaseModel):
    """How a prediction was made; the fields are those of `idisc.provenance.Provenance`."""

    model_config = ConfigDict(extra="allow")

    picture: str
    model: dict[str, Any] = Field(description="Name, sha256, domain, training data, licence ...")
    network_size: Size
    network_size_reason: SizeReason
    warnings: list[WarningInfo]


class Record(BaseModel):
    """The data that are stored with a result."""

    format: Literal["idisc/1"]
    unit: Unit = Field(description="Of depth; relative: 1 / depth up to scale and shift")
    camera: CameraInfo
    provenance: Provenance


class DepthSummary(BaseModel):
    """Depth along the optical axis."""

    low: float = Field(description="2 % of the pixels are nearer")
    median: float
    high: float = Field(description="2 % of the pixels are farther")


class Result(Record):
    """The summary of a prediction; the rest is at /results/{result}."""

    result: str = Field(
        description="Secret token of the result; everyone who has it can read the result"
    )
    kept_s: float = Field(description="Seconds for which it is kept after its last use")
    depth_m: DepthSummary | None = Field(description="In metres; null for relative depth")
    depth_relative: DepthSummary | None = Field(description="Null for depth in metres")


class Packed(BaseModel):
    """Depth of every n-th pixel: base64 of deflated 16-bit differences along each row."""

    metres_per_unit: float
    depth: str


class View(Packed):
    """A result as the page shows it."""

    name: str
    unit: Unit = Field(description="Of depth; relative depth has no metres")
    size: Size = Field(description="Height and width of the picture")
    grid: Size = Field(description="Height and width of the packed depth")
    first: int = Field(description="Row and column of its first pixel in the picture")
    step: int = Field(description="Pixels of the picture from one to the next")
    camera: Intrinsics = Field(description="fx, fy, cx, cy of the grid")
    limits: Span = Field(description="Metres at both ends of the colormap")
    ticks: list[Tick]
    empty: Rgb
    colours: str
    edges: str
    photo: str = Field(description="The picture as a data: address")
    record: Record
    description: dict[str, str] = Field(description="The provenance as sentences, for people")


class LevelInfo(BaseModel):
    """One level of the network."""

    stride: int
    size: Size
    idrs: int
    attention_peak: float = Field(description="Value of byte 255 of its attention maps")
    partition_peak: float = Field(description="The same for its partition; 0: there is none")
    dominant: list[float] = Field(description="Share of the pixels in which each IDR dominates")


class Explained(BaseModel):
    """The summary of the IDRs; the maps are at /results/{result}/maps."""

    result: str
    kept_s: float
    maps: Size = Field(description="Height and width of every map")
    quantiles: Span = Field(description="Quantiles of a map between which it is shown")
    least_range: float = Field(description="Maps that vary by less are shown flat")
    levels: list[LevelInfo] = Field(description="Coarse to fine")
    depth: Packed = Field(description="With all IDRs, on the grid of the view")
    change_colours: str = Field(description="256 RGB for changes, base64")


def _check_number(value: object) -> object:
    """Refuse booleans and strings, which pydantic would convert to numbers."""
    if isinstance(value, (bool, str)):
        raise ValueError("an integer is needed")
    return value


Level = Annotated[str, Field(pattern="^[0-7]$")]  # keys of JSON objects are strings
Idr = Annotated[int, Field(ge=0, le=511), BeforeValidator(_check_number)]


class Mute(BaseModel):
    """The IDRs to leave out."""

    model_config = ConfigDict(extra="forbid")

    muted: dict[Level, Annotated[list[Idr], Field(max_length=512)]] = Field(
        description="Indices of IDRs by level, 0 the coarsest",
        json_schema_extra={"additionalProperties": False},
    )


class NoFields(BaseModel):
    """The fields of a form beside its picture: none."""

    model_config = ConfigDict(extra="forbid")


class PredictFields(NoFields):
    """The fields of the form of POST /predict beside its picture; empty ones are ignored."""

    fov: Annotated[float, Field(ge=1, le=179, allow_inf_nan=False)] | None = Field(
        None, description="Horizontal, degrees"
    )
    known_distance: str | None = Field(None, max_length=2000, description=KNOWN_DISTANCE_FORMAT)


class Muted(BaseModel):
    """Depth without some IDRs."""

    depth: Packed
    change: Packed = Field(description="Change of depth, minus change_from_m")
    change_from_m: float = Field(
        description="Smallest change; negative where something comes nearer"
    )
    mean_m: float = Field(description="Mean absolute change")
    largest_m: float = Field(description="99th percentile of the absolute change")


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "Not a picture, or an invalid value"},
    403: {"model": Problem, "description": "Sent from another web page, or to another host name"},
    404: {"model": Problem, "description": "Does not exist, or has been dropped"},
    405: {"model": Problem, "description": "Method not allowed"},
    408: {"model": Problem, "description": "The upload stopped, or was too slow"},
    413: {"model": Problem, "description": "Too many bytes or too many pixels"},
    415: {"model": Problem, "description": "The picture is not in a form"},
    422: {"model": Problem, "description": "A field is missing, unknown or of the wrong type"},
    429: {"model": Problem, "description": "Too many requests are waiting; see Retry-After"},
    431: {"model": Problem, "description": "Headers of more than 16 kB"},
    500: {"model": Problem, "description": "The network predicts no depth, or a bug"},
    503: {"model": Problem, "description": "Timeout, or too many uploads; see Retry-After"},
}
