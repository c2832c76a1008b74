"""Hostile models are refused with one line; damaged ones are the subject of `tests.fuzz`."""

import json

import numpy as np
import pytest
from tests.fakes import onnx_files
from tests.fakes.refusals import refused

from idisc.errors import CheckpointError
from idisc.model.checkpoint import CONFIG, WEIGHTS, load_network
from idisc.predict.onnx_engine import OnnxEngine


@pytest.mark.parametrize(
    ("group", "field", "value"),
    [("decoder", "width", 10**9), ("decoder", "layers", 10**9), ("afp", "idrs", 4096)],
)
def test_a_record_of_a_network_beyond_all_memory_is_refused(
    checkpoint, tmp_path, group, field, value
):
    record = json.loads((checkpoint / CONFIG).read_text())
    del record["crc32"]
    record["model"][group][field] = value
    (tmp_path / CONFIG).write_text(json.dumps(record))
    (tmp_path / WEIGHTS).write_bytes((checkpoint / WEIGHTS).read_bytes())
    subject = (
        tmp_path / WEIGHTS if value == 4096 else f"{tmp_path / CONFIG}: model: {group}.{field}"
    )
    with refused(CheckpointError, subject):
        load_network(tmp_path)


def test_a_graph_reads_no_other_file(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(np.float32(50).tobytes())
    (tmp_path / "deep").mkdir()
    path = tmp_path / "deep" / "stealing.onnx"
    onnx_files.depth_of_brightness(path, weights_at="../secret")
    with refused(CheckpointError, path, "ONNX"):
        OnnxEngine(path)
