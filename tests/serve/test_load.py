"""Under load, from a second process: every photo is answered, and memory stays where it is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
import torch
from tests.fakes import pairs, served

from idisc.model.checkpoint import save_checkpoint
from idisc.model.network import IDisc

SCRIPT = Path(__file__).parents[2] / "docs" / "examples" / "load_serve.py"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server of its own process, as a user starts it."""
    torch.manual_seed(0)
    origin = {"training_size": [96, 128], "domain": "indoor"}
    save_checkpoint(tmp_path / "tiny", pairs.TINY, IDisc(pairs.TINY).state_dict(), origin)
    command = [sys.executable, "-m", "idisc", "serve", "--port", "0", "--queue", "12", "--weights"]
    with subprocess.Popen([*command, str(tmp_path / "tiny")], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        yield server.stdout.readline().decode().strip()
        server.terminate()
        assert server.wait(30) in (0, -15)


@pytest.mark.slow
def test_200_requests_16_at_once_end_well_in_the_same_memory(url: str, tmp_path: Path) -> None:
    photo = tmp_path / "room.png"
    photo.write_bytes(served.png(served.ramp(240, 320)))
    command = [sys.executable, str(SCRIPT), url, str(photo)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["answers"]["200"] == 200
    assert report["growth"] < 0.1
    assert report["p95_s"] >= report["p50_s"] > 0


def test_the_script_is_for_this_machine_only() -> None:
    command = [sys.executable, str(SCRIPT), "http://example.org", "photo.jpg"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "only for a server on this machine" in done.stderr
