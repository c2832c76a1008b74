"""The list of what the wheel contains is complete and up to date."""

import json
from pathlib import Path

from tools import audit, sbom

ROOT = Path(__file__).parents[1]
TEXT = {".py", ".md", ".txt", ".html", ".css", ".js", ".typed"}


def test_the_bill_of_materials_lists_every_file_that_is_not_our_text():
    stored = (ROOT / "sbom.cdx.json").read_text()
    assert stored == sbom.document(), "run tools/sbom.py"
    listed = {component["name"] for component in json.loads(stored)["components"]}
    package = ROOT / "src/idisc"
    present = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in TEXT and "__pycache__" not in path.parts
    }
    assert present <= listed
    assert "idisc/assets/three.min.js" in listed


def test_a_licence_with_further_terms_is_not_permissive():
    for licence in ("MIT", "MPL-2.0 AND MIT", "GPL-2.0-only OR BSD-3-Clause"):
        assert audit.is_permissive(licence)
    for licence in ("MIT AND LGPL-3.0-or-later", "GPL-3.0-only", "not stated"):
        assert not audit.is_permissive(licence)
