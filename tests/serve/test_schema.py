"""The API against its own description: requests made from it never end in an error of ours."""

import warnings

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("schemathesis", reason="schemathesis is not installed")
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, settings
from jsonschema_rs import is_valid
from tests.fakes import served

from idisc.formats import FORMATS
from idisc.serve.service import Upload

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own dependencies
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

PNG = served.png()
UPLOAD = Upload(PNG, "room.png")
SERVER = served.serve(upload_mb=1, megapixels=1)
SERVER.app.hosts = None  # requests are made up, their hosts, too
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
schema = schemathesis.openapi.from_asgi("/openapi.json", SERVER.app)


@schema.parametrize()
@settings(
    max_examples=12,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_ends_in_an_error_of_ours(case):
    case.call_and_validate(checks=CHECKS, timeout=60)
    # The same once more with a picture that is one and a result that is there
    if isinstance(case.body, dict) and "file" in case.body:
        case.body["file"] = PNG
    if "token" in (case.path_parameters or {}):
        service = SERVER.app.app.state.server.service
        case.path_parameters["token"] = service.keep(service.predict(UPLOAD))["result"]
    case.call_and_validate(checks=CHECKS, timeout=60)


@pytest.mark.parametrize(
    ("muted", "valid"),
    [
        ({}, True),
        ({"0": [1], "1": [0, 2]}, True),
        ({"0": [1.0]}, True),  # an integer of JSON Schema
        ({"one": [1]}, False),
        ({"-1": [1]}, False),
        ({"8": [1]}, False),
        ({"0": ["1"]}, False),
        ({"0": [True]}, False),
        ({"0": [-1]}, False),
        ({"0": [512]}, False),
    ],
)
def test_muted_is_described_as_it_is_taken(muted, valid):
    described = schema.raw_schema["components"]["schemas"]["Mute"]["properties"]["muted"]
    assert is_valid(described, muted) is valid
    service = SERVER.app.app.state.server.service
    token = service.keep(service.predict(UPLOAD))["result"]
    with TestClient(SERVER.app) as client:
        answer = client.post(f"/results/{token}/mute", json={"muted": muted})
    assert answer.status_code == (200 if valid else 422)


def test_a_picture_is_described_as_a_file_that_is_not_empty():
    for path in ("/predict", "/explain"):
        body = schema.raw_schema["paths"][path]["post"]["requestBody"]
        described = body["content"]["multipart/form-data"]["schema"]
        assert described["required"] == ["file"]
        assert described["properties"]["file"]["minLength"] == 1
        with TestClient(SERVER.app) as client:
            assert client.post(path, files={"file": ("a.png", b"")}).status_code == 400


def test_every_address_is_described():
    described = schema.raw_schema["paths"]
    assert set(described) == {
        "/predict",
        "/explain",
        "/results/{token}/view",
        "/results/{token}/explain",
        "/results/{token}/maps",
        "/results/{token}/mute",
        "/results/{token}/file",
        "/results/{token}",
        "/examples",
        "/examples/{name}",
        "/health",
        "/metrics",
    }
    names = [row.name for row in FORMATS.values() if row.on_web]
    for path, method, extra in (
        ("/predict", "post", ["json"]),
        ("/results/{token}/file", "get", []),
    ):
        parameters = {each["name"]: each for each in described[path][method]["parameters"]}
        assert parameters["format"]["schema"]["enum"] == names + extra
