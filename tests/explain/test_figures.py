"""Figures: their content, the units of legends, and files of print size."""

import json
import sys
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from PIL import Image
from tests.fakes import explained
from tests.fakes.refusals import refused

from idisc import visualize
from idisc.errors import MissingExtra
from idisc.explain import ablate, figures, grid, usage_page
from idisc.explain.grid import Grid, Tile
from idisc.explain.idrs import explain
from idisc.explain.usage import Collector, usage_of
from idisc.tasks import DEPTH, NORMALS

pytest.importorskip("matplotlib")
NAME = "küche 厨房 $.jpg"
RED = np.full((30, 40, 3), (200, 0, 0), np.uint8)


def comparison(seed=0, normals=False):
    target = np.random.default_rng(seed).uniform(1, 4, (48, 64, 3) if normals else (48, 64))
    valid = np.ones((48, 64), bool)
    valid[:5] = False
    predictions = {f"net{n}": target + 0.25 * n for n in range(2)}
    return figures.Comparison(f"{seed}.jpg", explained.picture(seed), target, valid, predictions)


def figures_of(explanation):
    """The figures that show a prediction of depth or normals."""
    effects = {idr: ablate.mute(explanation, {1: {idr}}) for idr in (2, 5)}
    alone, without = ablate.levels_alone(explanation), ablate.leave_one_out(explanation)
    return {
        "levels": figures.levels(explanation, alone, without, NAME),
        "muting": figures.muting(explanation, explanation.levels[1], effects, NAME),
        "muted": figures.muted_together(explanation, effects[2], NAME),
    }


@cache
def every_figure():
    explanation = explained.explanation()
    pair = [("first", explanation), ("second", explained.explanation(1))]
    levels = Collector().add("a", explanation)
    return {
        "contact": figures.contact_sheet(
            explanation, explanation.levels[1], levels[1].total["attention"], NAME
        ),
        "grid": figures.idr_grid(pair, {0: [1, 2], 2: [3]}),
        "partition": figures.partition(explanation, NAME),
        **figures_of(explanation),
        "similarity": figures.similarity(levels, NAME),
        "panels": figures.panels([comparison(0), comparison(1)], 0.5, "Some pictures", DEPTH),
        "normals": figures.panels([comparison(0, normals=True)], 30.0, "Some normals", NORMALS),
    }


def captions(figure):
    return [tile.caption for row in figure.rows for tile in row if tile and tile.caption]


def test_text_is_readable_and_neither_leaves_the_figure_nor_overlaps():
    for name, content in every_figure().items():
        figure = grid.draw(content)
        figure.canvas.draw()
        width, height = figure.get_size_inches()
        drawn = figure.get_tightbbox()
        assert 0 <= drawn.x0 < drawn.x1 <= width <= grid.WIDTH + 1e-9, name
        assert 0 <= drawn.y0 < drawn.y1 <= height, name
        texts = [text for axes in figure.axes for text in (axes.xaxis.label, *axes.texts)]
        texts = [text for text in (*figure.texts, *texts) if text.get_text()]
        assert min(text.get_size() for text in texts) >= 6, name
        boxes = [text.get_window_extent() for text in texts]
        assert not [1 for one, other in combinations(boxes, 2) if one.overlaps(other)], name


def test_legends_and_captions_have_units():
    for name in ("levels", "muting", "muted", "panels"):
        labels = [bar.label for bar in every_figure()[name].bars]
        assert "depth, m" in labels
        assert labels[-1] in ("change, m", "change, mm", "error, m")
    assert [bar.label for bar in every_figure()["normals"].bars] == ["error, deg"]
    for figure in figures_of(explain(explained.normals_network(), explained.picture())).values():
        assert figure.bars[-1].label == "change, deg"
        assert captions(figure)[-1].endswith(" deg")
        assert "depth" not in figure.title + "".join(figure.row_labels)


def test_captions_of_a_contact_sheet():
    level = explained.explanation().levels[1]
    shares, bright = usage_of(level.attention).shares, np.quantile(level.attention[3], 0.98)
    found = captions(every_figure()["contact"])
    assert len(found) == explained.IDRS
    assert found[3] == f"3 · {shares[3]:.1%} · {bright:.2f}"


def test_a_long_grid_still_fits_on_a_page():
    pair = [("first", explained.explanation())]
    drawn = grid.draw(figures.idr_grid(pair, {0: range(8), 1: range(8)}))
    assert drawn.get_figheight() < 11.7  # inches of A4


def test_a_level_far_from_the_others_has_contrast():
    explanation = explained.explanation()
    ramp = np.linspace(0, 1, explanation.depth.size, dtype=np.float32)
    far = ablate.effect(explanation, "far", 50 + 5 * ramp.reshape(explanation.depth.shape))
    figure = figures.levels(explanation, [far], [], NAME)
    tile = figure.rows[0][2]
    assert tile.caption == "50.10 to 54.90 m"
    assert len(np.unique(tile.picture.reshape(-1, 3), axis=0)) > 10
    assert figure.bars[0].high == pytest.approx(54.9)


def test_panels_show_each_network_with_its_error():
    figure = every_figure()["panels"]
    assert list(figure.columns) == ["picture", "ground truth", "net0", "error", "net1", "error"]
    row = [tile for tile in figure.rows[0] if tile]
    assert [tile.caption for tile in row] == ["0.jpg", "", "", "mean 0.00 m", "", "mean 0.25 m"]
    assert (row[3].picture[0] == visualize.EMPTY).all()  # not valid
    colours = visualize.colourise(np.array([[0, 0.25]]), 0, 0.5, "coolwarm")[0]
    for tile, colour in zip((row[3], row[5]), colours, strict=True):
        assert np.abs(tile.picture[-1, -1].astype(int) - colour).max() <= 3


def test_panels_show_the_photo_with_the_aspect_of_its_ground_truth():
    squeezed = replace(comparison(), image=explained.picture(size=(48, 48)))
    photo = figures.panels([squeezed], 0.5, "One", DEPTH).rows[0][0]
    assert photo.picture.shape[0] / photo.picture.shape[1] == pytest.approx(48 / 64)


@pytest.mark.parametrize(
    ("change", "end", "label", "caption"),
    [
        (0.0, 10, "change, mm", "0.0 mm"),
        (0.012, 15, "change, mm", "12 mm"),
        (0.123, 0.15, "change, m", "0.12 m"),
    ],
)
def test_colours_of_changes_end_at_a_round_number(change, end, label, caption):
    explanation = explained.explanation()
    effect = ablate.effect(explanation, "x", explanation.depth + np.float32(change))
    figure = figures.muted_together(explanation, effect, NAME)
    bar = figure.bars[-1]
    assert (bar.low, bar.high, bar.label) == (-end, end, label)
    assert captions(figure) == [caption]


def test_labels_of_a_partition_are_inside_their_areas_and_apart():
    dominant = np.zeros((60, 80), np.intp)
    dominant[29:31, :] = 1  # a stripe through the middle of the first
    dominant[:, 70:] = 2
    labels = figures.place_labels(dominant, [0, 1, 2])
    assert {text for _, _, text in labels} == {"0", "1", "2"}
    for x, y, text in labels:
        assert dominant[int(y * 60), int(x * 80)] == int(text)
    for (x, y, _), (other_x, other_y, _) in combinations(labels, 2):
        assert abs(x - other_x) >= 0.14 or abs(y - other_y) >= 0.11
    for tile in every_figure()["partition"].rows[0][1:]:
        assert tile.labels


def test_a_png_has_print_size_and_names_its_network(tmp_path):
    path = grid.save(Grid(rows=[[Tile(RED)] * 3], title=NAME), tmp_path / "a.png", {"model": "x"})
    with Image.open(path) as picture:
        assert picture.width == grid.WIDTH * grid.DPI
        assert picture.info["dpi"] == pytest.approx((grid.DPI, grid.DPI), abs=0.1)
        assert json.loads(picture.info["idisc"])["model"] == "x"
        assert picture.getpixel((picture.width // 6, picture.height // 2))[:3] == (200, 0, 0)
    assert [each.name for each in tmp_path.iterdir()] == ["a.png"]


def test_a_pdf_has_embedded_fonts_and_the_same_bytes_each_time(tmp_path):
    figure = every_figure()["levels"]
    first, second = (
        grid.save(figure, tmp_path / f"{name}.pdf", {"model": "tiny"}).read_bytes()
        for name in ("first", "second")
    )
    assert first == second
    assert b"/FontFile2" in first  # TrueType
    width = first.partition(b"/MediaBox [")[2].split()[2]
    assert float(width) == pytest.approx(72 * grid.WIDTH)


def test_without_matplotlib_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with refused(MissingExtra, "matplotlib", "idisc[figures]"):
        grid.save(Grid(rows=[[Tile(RED)]], title=NAME), tmp_path / "figure.png", {})
    assert list(tmp_path.iterdir()) == []


def test_the_page_is_self_contained_and_escapes_names():
    collector = Collector()
    collector.add("<b>.png", explained.explanation())
    collector.add("2.png", explained.explanation(1))
    page = usage_page.page(collector.report(), "tiny & co", {"model": "<tiny>"})
    assert "<title>tiny &amp; co: usage of IDRs</title>" in page
    assert "<b>.png" not in page
    assert "&lt;tiny&gt;" in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("data:image/png;base64,") == 2 * explained.LEVELS  # matrices
    assert page.count("<title>IDR 6, ") == 2 * explained.LEVELS  # tooltips of bars
