"""A real Ray with two simulated machines of one core; tests kill machines, drivers and workers.

The order of the tests saves time: those that need both machines come before those that kill one.
`make test-cluster` repeats the tests that kill.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

ray = pytest.importorskip("ray", reason="needs the extra cluster")

import pyarrow as pa
from pyarrow import parquet
from tests.fakes import clustered, indoor, onnx_files, pairs
from tests.fakes.called import run
from tests.fakes.refusals import refused

import idisc.cluster
from idisc.cluster import job as jobs
from idisc.cluster.connection import ports_in_advance
from idisc.cluster.executor import RayExecutor
from idisc.data.dataset import open_dataset
from idisc.data.prepare.runner import prepare
from idisc.errors import InputError
from idisc.evaluate.run import evaluate
from idisc.executors import HERE, WorkerDied
from idisc.predict.predictor import load

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
STORE = 100 << 20  # bytes
SMALL = RayExecutor(memory=1 << 20)
KILLS = int(os.environ.get("IDISC_KILLS", "2"))  # of the driver in one job
REPEATED = pytest.mark.parametrize("turn", range(int(os.environ.get("IDISC_TURNS", "1"))))
PATIENCE_S = 600.0  # on a busy machine, a worker needs minutes to start


class Machines:
    """Two simulated machines; the second is replaced after a test has killed it."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        head = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
        head["object_store_memory"] = STORE
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address = self.cluster.address
        self.second = None
        ray.init(address=self.address, log_to_driver=False)

    def complete(self):
        """Wait until both machines run workers."""
        if self.second is None:
            self.second = self.cluster.add_node(object_store_memory=STORE)
        seen = set()
        end = time.monotonic() + PATIENCE_S
        while len(seen) < 2 and time.monotonic() < end:
            seen |= {outcome.value for outcome in SMALL.map(machine, range(4))}
        assert len(seen) == 2

    def kill(self):
        """End the second machine abruptly."""
        self.cluster.remove_node(self.second, allow_graceful=False)
        self.second = None


def machine(_):
    """The name of the machine that runs this."""
    time.sleep(0.1)
    return str(ray.get_runtime_context().get_node_id())


@pytest.fixture(scope="module")
def started():
    with pytest.MonkeyPatch.context() as patch, ports_in_advance():
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        machines = Machines()
        yield machines
        ray.shutdown()
        machines.cluster.shutdown()


@pytest.fixture
def machines(started):
    started.complete()
    return started


class KillOnce:
    """A progress callback that kills a machine when `after` items are done."""

    def __init__(self, machines, after):
        self.machines, self.after = machines, after

    def __call__(self, done, *_):
        if getattr(done, "done", done) >= self.after and self.machines.second is not None:
            self.machines.kill()


def test_a_ray_dataset_gets_columns_of_results(machines, tmp_path):
    pytest.importorskip("pandas", reason="Ray Data needs it")
    table = parquet.read_table(clustered.table(tmp_path / "in.parquet", 12))
    dataset = ray.data.from_arrow(table)
    model = onnx_files.depth_of_brightness(tmp_path / "model.onnx")
    found = idisc.cluster.predict(dataset, str(model), column="jpeg", key="key", workers=1)
    rows = {row["label"]: row for row in found.take_all()}
    assert len(rows) == 12
    assert [label for label, row in rows.items() if row["error"]] == [7]
    assert rows[3]["statistics"]["median"] == pytest.approx(0.56, abs=0.02)


@REPEATED
def test_a_job_continues_after_its_driver_is_killed(machines, tmp_path, turn):
    source = clustered.table(tmp_path / "in.parquet", 120)
    model = onnx_files.depth_of_brightness(tmp_path / "model.onnx")
    call = ["predict", str(source), "--weights", str(model), "--part-size", "3"]
    command = [sys.executable, "-m", "idisc", *call, "-o", str(tmp_path / "out")]
    notes, draw = tmp_path / "out/_idisc/parts", random.Random(turn)
    endings = [(signal.SIGTERM, 143), *[(signal.SIGKILL, -signal.SIGKILL)] * (KILLS - 1)]
    for (ending, code), parts in zip(
        endings, sorted(draw.choices(range(30), k=KILLS)), strict=True
    ):
        driver = subprocess.Popen(
            [*command, f"--cluster={machines.address}"], stderr=subprocess.PIPE
        )
        end = time.monotonic() + PATIENCE_S
        while not notes.is_dir() or len(list(notes.glob("*.json"))) < parts:
            assert driver.poll() is None, driver.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.1))
        driver.send_signal(ending)
        _, stderr = driver.communicate()
        finished = (tmp_path / "out/_idisc/manifest.json").exists()  # before the signal
        assert driver.returncode == code or finished, stderr
    assert run(*call, "-o", tmp_path / "out", "--cluster") == 2  # three pictures are damaged
    assert run(*call, "-o", tmp_path / "whole", "--cluster") == 2
    assert clustered.written(tmp_path / "out") == clustered.written(tmp_path / "whole")


@REPEATED
def test_a_prediction_survives_the_death_of_a_machine(machines, tmp_path, turn):
    source = clustered.table(tmp_path / "in.parquet", 200)
    jobs.run(clustered.job(source, tmp_path / "local"), HERE)
    job = clustered.job(source, tmp_path / "cluster")
    summary = jobs.run(job, SMALL, KillOnce(machines, 5))
    assert machines.second is None
    assert (summary.pictures, len(summary.failures)) == (200, 4)
    assert clustered.written(tmp_path / "cluster") == clustered.written(tmp_path / "local")


@REPEATED
def test_a_preparation_survives_the_death_of_a_machine(machines, tmp_path, turn):
    indoor.nyu(tmp_path / "raw", {f"sync/kitchen_{n:04d}": 2 for n in range(24)})
    local = prepare("nyu", tmp_path / "raw", tmp_path / "local")
    killing = KillOnce(machines, 3)
    found = prepare("nyu", tmp_path / "raw", tmp_path / "cluster", executor=SMALL, progress=killing)
    assert machines.second is None
    assert found == local
    manifests = [tmp_path / name / "manifest.jsonl" for name in ("local", "cluster")]
    assert manifests[0].read_bytes() == manifests[1].read_bytes()


@REPEATED
def test_an_evaluation_survives_the_death_of_a_machine(machines, tmp_path, turn):
    dataset = open_dataset(pairs.make(tmp_path / "pairs", train=1, test=24), None, "test")
    predictor = load(onnx_files.depth_and_spread(tmp_path / "model.onnx"))
    (local,) = evaluate(dataset, predictor)
    (found,) = evaluate(dataset, predictor, executor=SMALL, progress=KillOnce(machines, 3))
    assert machines.second is None
    for name in ("totals", "rows", "intervals", "by_distance", "calibration", "median_ratio"):
        assert getattr(found, name) == getattr(local, name), name


def test_the_command_prints_the_same_with_a_cluster(started, tmp_path, capsys):
    model = onnx_files.depth_and_spread(tmp_path / "model.onnx")
    data = pairs.make(tmp_path / "pairs", train=1, test=3)
    outputs = []
    for option in ((), ("--cluster",)):
        assert run("evaluate", "--weights", model, "--data", data, *option) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != ""


def test_the_first_failures_are_printed_and_a_file_lists_all(started, tmp_path, capsys):
    source, model = tmp_path / "in.parquet", onnx_files.depth_of_brightness(tmp_path / "model.onnx")
    pictures = [*[b"no picture"] * 22, clustered.jpeg(9)]
    parquet.write_table(pa.table({"jpeg": pictures}), source)
    call = ["predict", source, "-o", tmp_path / "out", "--weights", model, "--part-size", 9]
    assert run(*call, "--gpus-per-worker", 1, "--cluster") == 2
    assert "1 GPU" in capsys.readouterr().err  # no machine has one
    assert run(*call, "--cluster") == 2
    assert capsys.readouterr().err.count("failed: ") == 20
    assert len((tmp_path / "out/_idisc/failures.jsonl").read_text().splitlines()) == 22


class Deadly:
    """Kills its worker: for item 1 always, for item 2 the first time."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, number):
        seen = self.folder / str(number)
        if number == 1 or (number == 2 and not seen.exists()):
            seen.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number


def test_a_dead_worker_costs_only_the_item_that_kills_it(started, tmp_path):
    outcomes = list(SMALL.map(Deadly(tmp_path), range(4)))
    errors = {each.item: type(each.error) for each in outcomes if each.error}
    assert (sorted(each.index for each in outcomes), errors) == ([0, 1, 2, 3], {1: WorkerDied})


def test_a_cluster_without_memory_is_refused(started):
    with refused(InputError, "--cluster", "GiB"):
        list(RayExecutor(memory=1 << 60).map(str, [1]))
