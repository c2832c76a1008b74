"""Runs in separate processes: distributed training, signals, and kills."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.fakes import pairs
from tests.fakes.training import losses, same

from idisc.train import log, state

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
}


def command(*arguments, processes=1):
    launcher = []
    if processes > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
        launcher.append(f"--master-port={port}")
    return [sys.executable, *launcher, "-m", "idisc", *map(str, arguments)]


def training(data, out, iterations=4):
    changes = {"train.iterations": iterations, "train.validate_every": 1000, "train.save_every": 1}
    return pairs.command(data, out, **changes)


@pytest.mark.slow
def test_two_processes_compute_the_same_as_one(data, tmp_path):
    for processes in (1, 2):
        out = tmp_path / f"run{processes}"
        subprocess.run(
            command(*training(data, out), processes=processes),
            check=True,
            env=ENVIRONMENT,
            capture_output=True,
            timeout=300,
        )
    one, two = losses(tmp_path / "run1"), losses(tmp_path / "run2")
    assert two == pytest.approx(one, rel=2e-4)
    metrics = [log.read(tmp_path / f"run{n}", "validation")[-1] for n in (1, 2)]
    assert metrics[1]["abs_rel"] == pytest.approx(metrics[0]["abs_rel"], rel=1e-2)


@pytest.mark.slow
def test_a_signal_saves_and_prints_how_to_resume(data, tmp_path):
    """SIGINT has the same handler; tests/cli/test_train.py sends both."""
    out = tmp_path / "run"
    process = subprocess.Popen(
        command(*training(data, out, iterations=10_000)),
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and len(log.read(out, "step")) < 2:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert f"resume with: idisc train --resume {out}" in said
    assert state.read_training(out)["step"] == log.read(out, "step")[-1]["step"]


@pytest.mark.slow
def test_a_run_killed_at_any_moment_resumes_bit_for_bit(data, tmp_path):
    """Kills happen at the start and in steps, checkpoints and validations."""
    whole, out = tmp_path / "whole", tmp_path / "run"
    call = [sys.executable, "-m", "tests.fakes.killed", data, whole, out]
    subprocess.run([str(part) for part in call], check=True, env=ENVIRONMENT, timeout=600)
    assert losses(out) == losses(whole)
    assert log.read(out, "validation") == log.read(whole, "validation")
    assert same(state.read_training(out), state.read_training(whole))
    for name in ("last", "best"):
        for file in ("config.json", "model.safetensors"):
            assert (out / name / file).read_bytes() == (whole / name / file).read_bytes()
    assert not list(out.rglob("*.part"))
