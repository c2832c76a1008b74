"""A job in this process: sources, rows, files, resumption and refusals."""

import io
import json
import random
import signal
from contextlib import nullcontext, suppress
from dataclasses import replace

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="needs the extra cluster")

import pyarrow as pa
from PIL import Image
from pyarrow import parquet
from tests.fakes import clustered, onnx_files
from tests.fakes.brightness import picture
from tests.fakes.called import run
from tests.fakes.refusals import refused

from idisc.cli import clusters
from idisc.cli.batch import Terminated, terminable
from idisc.cluster import DepthPredictor, storage
from idisc.cluster import job as jobs
from idisc.cluster.connection import connected
from idisc.cluster.sources import Columns, list_parts
from idisc.errors import InputError
from idisc.executors import HERE
from idisc.predict.options import PredictOptions


class Killed(BaseException):
    """Ends the driver."""


def rows_of(folder):
    return parquet.read_table(folder).to_pylist()


@pytest.mark.parametrize("make", [clustered.table, clustered.shard])
def test_tables_and_shards_become_rows_with_depth_or_an_error(tmp_path, make):
    suffix = {"table": ".parquet", "shard": ".tar"}[make.__name__]
    source = make(tmp_path / f"in{suffix}", 12)
    summary = jobs.run(clustered.job(source, tmp_path / "out", 5), HERE)
    rows = rows_of(tmp_path / "out")
    assert [row["key"] for row in rows] == list(clustered.contents(12))
    assert [key for key, _ in summary.failures] == ["photo007"]
    assert [row["key"] for row in rows if row["error"]] == ["photo007"]
    row = rows[5]
    depth = np.asarray(Image.open(io.BytesIO(row["depth_png16"]))) * row["metres_per_unit"]
    assert depth.shape == (24, 32)
    np.testing.assert_allclose(depth, 1.05, atol=0.011)  # JPEG may change a shade by one
    assert row["size"] == {"height": 24, "width": 32}
    assert row["statistics"]["median"] == pytest.approx(1.05, abs=0.011)
    assert row["provenance"]["model"]["name"] == "brightness"
    assert row["camera"]["source"] == "assumed"


def test_pictures_of_one_size_are_predicted_in_batches_on_a_gpu(tmp_path):
    """One picture is damaged; the network is a fake, which needs no GPU."""
    source = clustered.table(tmp_path / "in.parquet", 12)
    jobs.run(clustered.job(source, tmp_path / "cpu"), HERE)
    job = replace(clustered.job(source, tmp_path / "gpu"), predictor=clustered.Fake(device="cuda"))
    jobs.run(job, HERE)
    assert rows_of(tmp_path / "gpu") == rows_of(tmp_path / "cpu")
    assert max(shape[0] for shape, _ in job.predictor.predictor.engine.calls) == 4


def test_files_are_those_of_predict_on_one_machine(tmp_path):
    model = onnx_files.depth_of_brightness(tmp_path / "model.onnx")
    for name in ("a.png", "sub/a.png"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture()).save(tmp_path / "in" / name)
    call = ["predict", tmp_path / "in", "--recursive", "--weights", model, "--normals"]
    assert run(*call, "-o", tmp_path / "local", "--no-gallery") == 0
    job = jobs.Job(
        parts=tuple(list_parts([str(tmp_path / "in")], recursive=True)),
        destination=str(tmp_path / "out"),
        predictor=DepthPredictor(model, options=PredictOptions(normals=True)),
        formats=(),  # the default ones
    )
    jobs.run(job, HERE)
    found = clustered.written(tmp_path / "out")
    notes = [json.loads(text) for name, text in found.items() if "/parts/" in name]
    names = {name for part in notes for name in part["files"]}
    local = clustered.written(tmp_path / "local")
    assert {name: found[name] for name in names} == {n: c for n, c in local.items() if n[0] != "."}
    assert len(names) == 8


def test_pictures_with_the_same_key_have_different_files(tmp_path):
    source = tmp_path / "in.parquet"
    table = {"key": ["a/b", "a_b", "a/b"], "jpeg": [clustered.jpeg(n) for n in (10, 20, 30)]}
    parquet.write_table(pa.table(table), source)
    jobs.run(clustered.job(source, tmp_path / "out", formats=("npy",)), HERE)
    depths = [np.load(path)[0, 0] for path in sorted((tmp_path / "out").glob("*/*.npy"))]
    np.testing.assert_allclose(sorted(depths), [1.1, 1.2, 1.3], atol=0.011)


def test_a_killed_driver_loses_nothing(tmp_path, monkeypatch):
    """It is killed ten times, before or after a write; then the job runs to its end."""
    source, draw = clustered.table(tmp_path / "in.parquet", 40), random.Random(24)
    jobs.run(clustered.job(source, tmp_path / "whole", 4), HERE)
    job, write = clustered.job(source, tmp_path / "out", 4), storage.write
    for _ in range(10):
        left = [draw.randrange(1, 8)]
        late = draw.random() < 0.5

        def dying(place, content, left=left, late=late):
            left[0] -= 1
            if left[0] or late:
                write(place, content)
            if not left[0]:
                raise Killed

        monkeypatch.setattr(storage, "write", dying)
        with suppress(Killed):
            jobs.run(job, HERE)
    monkeypatch.setattr(storage, "write", write)
    summary = jobs.run(job, HERE)
    assert summary.skipped > 0
    assert clustered.written(tmp_path / "out") == clustered.written(tmp_path / "whole")


def test_a_part_with_damaged_notes_is_predicted_again(tmp_path):
    job = clustered.job(clustered.table(tmp_path / "in.parquet", 8), tmp_path / "out", 4)
    jobs.run(job, HERE)
    before, notes = clustered.written(tmp_path / "out"), tmp_path / "out/_idisc"
    first, second = sorted((notes / "parts").glob("*.json"))
    first.write_text("{bad")
    second.write_text("[]")
    assert jobs.run(job, HERE).skipped == 0
    assert clustered.written(tmp_path / "out") == before
    for content in ("{bad", "[]"):
        (notes / "request.json").write_text(content)
        with refused(InputError, str(notes / "request.json"), "damaged"):
            jobs.run(job, HERE)


def test_a_camera_matrix_is_for_the_size_of_the_first_readable_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "executor_of", lambda *_, **__: nullcontext(HERE))
    large = io.BytesIO()
    Image.fromarray(picture(48, 64)).save(large, format="JPEG")
    pictures = [b"no picture", clustered.jpeg(10), large.getvalue()]
    table = pa.table({"key": ["a", "b", "c"], "jpeg": pictures})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=1)
    model, out = onnx_files.depth_of_brightness(tmp_path / "model.onnx"), tmp_path / "out"
    call = ["predict", tmp_path / "in.parquet", "--weights", model, "-o", out, "--cluster"]
    assert run(*call, "--part-size", 1, "--camera-matrix", "30,30,16,12") == 2
    _, failure = (out / "_idisc/failures.jsonl").read_text().splitlines()
    assert json.loads(failure)["key"] == "c"
    assert "--camera-matrix" in failure


def test_the_destination_of_another_job_is_refused(tmp_path, monkeypatch):
    source, out = clustered.table(tmp_path / "in.parquet", 4), tmp_path / "out"
    jobs.run(clustered.job(source, out), HERE)
    with refused(InputError, f"-o {out}", "sources_sha256"):
        jobs.run(clustered.job(source, out, 2), HERE)
    monkeypatch.setattr(clustered.Slow, "sha256", "another")
    with refused(InputError, f"-o {out}", "weights_sha256"):
        jobs.run(clustered.job(source, out), HERE)
    with refused(InputError, f"-o {tmp_path}"):
        jobs.run(clustered.job(source, tmp_path), HERE)
    with refused(InputError, f"-o {source}"):
        jobs.run(clustered.job(source, source), HERE)


def test_missing_sources_are_refused_and_damaged_tables_are_failures(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError):
        list_parts([str(tmp_path / "empty")])
    with refused(InputError, tmp_path / "*.tar"):
        list_parts([str(tmp_path / "*.tar")])
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"no table")
    (failure,) = jobs.run(clustered.job(damaged, tmp_path / "one"), HERE).failures
    assert failure[0] == str(damaged)
    with refused(InputError, tmp_path / "none.parquet"):
        list_parts([str(tmp_path / "none.parquet")])
    source = clustered.table(tmp_path / "spark.parquet/in.parquet", 3).parent
    job = clustered.job(source, tmp_path / "two", columns=Columns(picture="x"))
    with refused(InputError, source / "in.parquet", "jpeg"):
        jobs.run(job, HERE)
    assert not (tmp_path / "two").exists()


@pytest.fixture
def bucket(monkeypatch):
    """A bucket of an S3 server in this process."""
    pytest.importorskip("moto", reason="needs the extra dev")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    values = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    storage._root.cache_clear()
    boto3.client("s3").create_bucket(Bucket="photos")
    yield "s3://photos"
    storage._root.cache_clear()
    server.stop()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_source_and_destination_may_be_addresses_of_s3(tmp_path, bucket):
    source = clustered.table(tmp_path / "in.parquet", 12)
    storage.write(f"{bucket}/in/a.parquet", source.read_bytes())
    storage.write(f"{bucket}/files/a.jpg", clustered.jpeg(9))
    jobs.run(clustered.job(source, tmp_path / "local", 5), HERE)
    job = clustered.job(f"{bucket}/in/*.parquet", f"{bucket}/out", 5)
    assert jobs.run(job, HERE).skipped == 0
    assert jobs.run(job, HERE).skipped == 3
    for name, content in clustered.written(tmp_path / "local").items():
        if name.endswith(".parquet"):
            assert storage.read(f"{bucket}/out/{name}") == content
    (part,) = list_parts([f"{bucket}/files"])
    assert part.places == (f"{bucket}/files/a.jpg",)
    with refused(InputError, "-o s3://nobody"):
        jobs.run(clustered.job(source, "s3://nobody"), HERE)


def test_sigterm_is_delayed_until_ray_is_connected(monkeypatch):
    seen = []

    def init(**_):
        signal.raise_signal(signal.SIGTERM)
        seen.append("connected")

    def work():
        with terminable(), connected():
            seen.append("working")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(Terminated):
        work()
    assert seen == ["connected"]
