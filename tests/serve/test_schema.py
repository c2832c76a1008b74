"""The API and its OpenAPI schema: no request that follows the schema causes a server error."""

import warnings

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("schemathesis", reason="schemathesis is not installed")
from hypothesis import HealthCheck, Phase, settings
from jsonschema_rs import is_valid
from tests.fakes import served
from tests.fakes.served import client_of

from idisc.formats import FORMATS
from idisc.serve.service import Upload

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of its dependencies
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

PNG = served.png()
SERVER = served.serve(upload_mb=1, megapixels=1)
SERVER.app.hosts = None  # the host names of generated requests are random
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
schema = schemathesis.openapi.from_asgi("/openapi.json", SERVER.app)


def new_token():
    """The token of a new result."""
    service = SERVER.state.service
    return service.keep(service.predict(service.photo(Upload(PNG, "room.png"))))["result"]


@schema.parametrize()
@settings(
    max_examples=12,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_generated_requests_cause_no_server_error(case):
    case.call_and_validate(checks=CHECKS, timeout=60)
    # The same with a valid picture and the token of a result
    if isinstance(case.body, dict) and "file" in case.body:
        case.body["file"] = PNG
    if "token" in (case.path_parameters or {}):
        case.path_parameters["token"] = new_token()
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
def test_the_schema_of_muted_agrees_with_the_server(muted, valid):
    described = schema.raw_schema["components"]["schemas"]["Mute"]["properties"]["muted"]
    assert is_valid(described, muted) is valid
    with client_of(SERVER.app) as client:
        answer = client.post(f"/results/{new_token()}/mute", json={"muted": muted})
    assert answer.status_code == (200 if valid else 422)


def test_the_schema_has_all_addresses_and_formats():
    described = schema.raw_schema["paths"]
    result = ["", "/explain", "/file", "/maps", "/mute", "/view"]
    others = ["/examples", "/examples/{name}", "/explain", "/health", "/metrics", "/predict"]
    assert sorted(described) == others + [f"/results/{{token}}{part}" for part in result]
    for path in ("/predict", "/explain"):
        body = described[path]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
        assert body["required"] == ["file"]
        assert body["properties"]["file"]["minLength"] == 1
    names = [row.name for row in FORMATS.values() if row.on_web]
    for operation, extra in (
        (described["/predict"]["post"], ["json"]),
        (described["/results/{token}/file"]["get"], []),
    ):
        parameters = {field["name"]: field for field in operation["parameters"]}
        assert parameters["format"]["schema"]["enum"] == names + extra
