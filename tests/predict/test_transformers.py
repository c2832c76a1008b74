"""Depth models of `transformers` answer as their own pipelines do, from folders and ONNX files."""

import numpy as np
import pytest
from tests.fakes import hub_models

from idisc.predict.predictor import load

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of transformers


def photo():
    """Soft stripes of three colours, 4:3."""
    rows, columns = np.mgrid[:120, :160]
    shades = [np.sin(rows / 9 + columns / place) for place in (7, 13, 23)]
    return ((np.stack(shades, axis=-1) + 1) * 127).astype(np.uint8)


@pytest.mark.parametrize("name", hub_models.MODELS)
def test_folders_and_onnx_files_answer_as_their_own_pipelines(name, tmp_path):
    peer, image = hub_models.MODELS[name](), photo()
    expected = peer.depth(image)
    inverse = not peer.metric or name == "depth_pro"  # what these networks compute
    if not peer.metric:  # infinity, and what an interpolation puts beyond it, is one place
        expected = np.maximum(expected, expected.max() / 1000)
    elif inverse:
        expected = 1 / expected
    folder = peer.save(tmp_path / "hub")
    found = load(folder).predict(image)
    path = peer.export(folder / "onnx" / "model.onnx", found.provenance.network_size)
    for answer in (found, load(path).predict(image)):
        assert answer.unit == ("metre" if peer.metric else "relative")
        values = 1 / answer.depth_values if inverse else answer.depth_values
        assert np.abs(values - expected).max() < 1e-3 * np.ptp(expected)
