"""Forms with a picture: their description for OpenAPI, and how they are read.

FastAPI can read them as well, but it writes a large picture to a temporary file and ignores fields
that are unknown or given twice.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from idisc.serve.admission import FORM_NEEDED
from idisc.serve.service import Upload

M = TypeVar("M", bound=BaseModel)
FILE = "file"  # the field of the picture


class _InMemoryParser(MultiPartParser):
    spool_max_size = max_file_size = sys.maxsize  # the name depends on the version of Starlette


def described(fields: type[BaseModel]) -> dict[str, Any]:
    """Describe a form with a picture and other fields, as part of an OpenAPI operation."""
    schema = fields.model_json_schema()
    properties = schema.setdefault("properties", {})
    for field in properties.values():  # a form has no null
        field.update(field.pop("anyOf", [{}])[0])
    properties[FILE] = {
        "type": "string",
        "format": "binary",
        "minLength": 1,
        "description": "JPEG, PNG, WebP, TIFF, HEIC ...",
    }
    schema["required"] = [FILE]
    content = {"multipart/form-data": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


async def read(request: Request, fields: type[M]) -> tuple[Upload, M]:
    """Return the picture and the other fields of a form; empty ones count as not given."""
    form = await _parsed(request)
    try:
        names = [FILE, *fields.model_fields]
        check_names((name for name, _ in form.multi_items()), names, "body")
        given: dict[str, Any] = {name: value for name, value in form.items() if value != ""}
        file = given.pop(FILE, None)
        if file is None:
            raise invalid_field("body", FILE, "Field required")
        if not isinstance(file, UploadFile):
            raise invalid_field("body", FILE, "text; send the picture as a file")
        return Upload(await file.read(), file.filename or ""), fields.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise invalid_field("body", str(first["loc"][0]), first["msg"]) from None
    finally:
        await form.close()


async def _parsed(request: Request) -> FormData:
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise HTTPException(415, FORM_NEEDED)
    # One file and some fields too many are read, so that `check_names` can name them.
    parser = _InMemoryParser(request.headers, request.stream(), max_files=2, max_fields=8)
    try:
        return await parser.parse()
    except (MultiPartException, ClientDisconnect, LookupError, ValueError):
        raise HTTPException(400, "the form is damaged or cut short; send it again") from None


def check_names(given: Iterable[str], names: list[str], place: str) -> None:
    """Raise an error for the first field that is unknown or given twice."""
    seen = set[str]()
    for name in given:
        if name not in names:
            raise invalid_field(
                place, name, f"unknown; the fields are {', '.join(names) or 'none'}"
            )
        if name in seen:
            raise invalid_field(place, name, "given twice; pass it once")
        seen.add(name)


def invalid_field(place: str, name: str, reason: str) -> RequestValidationError:
    """Return the error for a field of a `place`: query or body."""
    return RequestValidationError([{"loc": (place, name), "msg": reason}])
