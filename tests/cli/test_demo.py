"""`idisc demo`."""

import webbrowser

import pytest


@pytest.mark.slow
def test_the_examples_are_predicted_and_their_gallery_is_opened(run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or False)
    code, said, _ = run("demo", "-o", tmp_path / "demo")
    page = tmp_path / "demo" / "index.html"
    assert code == 0
    assert opened == [page.as_uri()]
    assert said.splitlines()[-1] == f"Open {page} in a browser."  # no browser was found
    assert "kitchen_viewer.html" in page.read_text()
    assert (tmp_path / "demo" / "street_viewer.html").is_file()
