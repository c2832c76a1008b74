"""The notebooks of the documentation run from top to bottom, and are stored without output."""

import json
import os
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter are not ours
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="fine-tuning needs the extra train")
    nbformat = pytest.importorskip("nbformat", reason="it comes with the extra dev")
    nbclient = pytest.importorskip("nbclient", reason="it comes with the extra dev")
    pytest.importorskip("ipykernel", reason="it comes with the extra dev")
    programs = str(Path(sys.executable).parent)  # `!idisc` is that of this environment
    monkeypatch.setenv("PATH", os.pathsep.join([programs, os.environ["PATH"]]))
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(tmp_path)}}
    try:
        nbclient.NotebookClient(notebook, timeout=600, resources=folder).execute()
    except nbclient.exceptions.CellExecutionError as error:  # `!idisc` that failed is above it
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        printed = [each.get("text", "") for cell in cells for each in cell.outputs]
        pytest.fail("".join(printed) + str(error))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_output(path):
    cells = json.loads(path.read_text())["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
