"""Progress where there is no terminal."""

from __future__ import annotations

import pytest

from idisc.cli import progress


def test_without_a_terminal_there_is_a_line_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with progress.bar("caching") as move:
        for done in range(1, 26):  # one each second
            now += 1
            move(done, 40)
    assert capsys.readouterr().err.splitlines() == [
        "caching 10/40, 0.5 min left",
        "caching 20/40, 0.3 min left",
    ]
