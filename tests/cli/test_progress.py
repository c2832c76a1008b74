"""Progress where there is no terminal."""

import time

from idisc.cli import progress


def wait_for(seen):
    """Look again and again; a thread prints."""
    return any(seen() or time.sleep(0.005) for _ in range(4000))


def test_without_a_terminal_lines_say_what_is_done_and_what_is_left(monkeypatch, capsys):
    now = 100.0
    seen = ""

    def shown(text):
        nonlocal seen
        seen += capsys.readouterr().err
        return text in seen

    monkeypatch.setattr(progress, "INTERVAL_S", 0.005)
    monkeypatch.setattr("idisc.cli.progress.time.monotonic", lambda: now)
    with progress.bar("caching") as move:
        now += 7
        assert wait_for(lambda: shown("caching, 7 s so far\n"))
        move(10, 40)  # of an earlier run
        now += 3
        assert wait_for(lambda: shown("caching 10/40, 3 s so far\n"))
        now += 57
        move(20, 40)
        assert wait_for(lambda: shown("caching 20/40, 2.0 min left\n"))
        move(1, 9, "clip.mp4")
        assert wait_for(lambda: shown("clip.mp4 1/9, 0 s so far\n"))
