"""Figures: everything on the page, legends in metres, letters that can be read."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFont
from tests.fakes import explained

from idisc import visualize
from idisc.errors import MissingExtra
from idisc.explain import ablate, figures, look, sheets, usage_page
from idisc.explain.idrs import explain
from idisc.explain.sheets import Bar, Grid, Tile
from idisc.explain.usage import Collector, usage_of

NAME = "küche 厨房.jpg"
RED = np.full((30, 40, 3), (200, 0, 0), np.uint8)


def case(seed: int = 0, models: int = 2, normals: bool = False) -> figures.Case:
    generator = np.random.default_rng(seed)
    shape = (48, 64, 3) if normals else (48, 64)
    target = generator.uniform(1, 4, shape)
    valid = np.ones((48, 64), bool)
    valid[:5] = False
    predictions = {f"net{n}": target + 0.25 * n for n in range(models)}
    return figures.Case(f"{seed}.jpg", explained.picture(seed), target, valid, predictions)


@cache
def every_figure() -> dict[str, Grid]:
    explanation = explained.explanation()
    level = explanation.levels[1]
    usages = [usage_of(each.attention) for each in explanation.levels]
    effects = dict(zip([2, 5], ablate.mute_each(explanation, 1, [2, 5]), strict=True))
    pair = [("first", explanation), ("second", explained.explanation(1))]
    names = [each.name for each in explanation.levels]
    alone, without = ablate.alone(explanation), ablate.leave_one_out(explanation)
    return {
        "contact": figures.contact_sheet(explanation, level, usages[1], NAME),
        "grid": figures.idr_grid(pair, {0: [1, 2], 2: [3]}),
        "partition": figures.partition(explanation, NAME),
        "levels": figures.levels(explanation, alone, without, NAME),
        "muting": figures.muting(explanation, level, effects, NAME),
        "muted": figures.muted_together(explanation, effects[2], NAME),
        "likeness": figures.likeness({"read by ISD": usages}, names, NAME),
        "panels": figures.panels([case(0), case(1)], 0.5, "Some pictures"),
        "normals": figures.panels([case(0, normals=True)], 30.0, "Some normals"),
    }


FIGURES = ["contact", "grid", "partition", "levels", "muting", "muted", "likeness"]
FIGURES += ["panels", "normals"]


@cache
def font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def texts(grid: Grid) -> list[str]:
    return [words.text for words in sheets.lay_out(grid).words]


@pytest.mark.parametrize("name", FIGURES)
def test_everything_is_on_the_page_and_can_be_read(name: str) -> None:
    sheet = sheets.lay_out(every_figure()[name])
    assert sheet.width <= sheets.WIDTH + 1e-6
    for placed in sheet.pictures:
        assert placed.x >= 0
        assert placed.y >= 0
        assert placed.x + placed.width <= sheet.width + 1e-6
        assert placed.y + placed.height <= sheet.height + 1e-6
    for words in sheet.words:
        assert words.size >= 6  # points
        assert 0 < words.y < sheet.height
        length = font(words.size).getlength(words.text)
        start = words.x - {"l": 0, "m": length / 2}[words.anchor]
        assert start >= -1
        assert start + length <= sheet.width + 1
    picture = sheets.draw_png(sheet, dpi=72)
    assert picture.shape == (round(sheet.height), round(sheet.width), 3)


@pytest.mark.parametrize("name", FIGURES)
def test_no_two_pictures_overlap(name: str) -> None:
    placed = sheets.lay_out(every_figure()[name]).pictures
    for number, one in enumerate(placed):
        for other in placed[number + 1 :]:
            apart = (
                one.x + one.width <= other.x + 1e-6
                or other.x + other.width <= one.x + 1e-6
                or one.y + one.height <= other.y + 1e-6
                or other.y + other.height <= one.y + 1e-6
            )
            assert apart


@pytest.mark.parametrize("name", FIGURES)
def test_no_two_words_overlap(name: str) -> None:
    lines: dict[float, list[tuple[float, float]]] = {}
    for words in sheets.lay_out(every_figure()[name]).words:
        length = font(words.size).getlength(words.text)
        start = words.x - {"l": 0, "m": length / 2}[words.anchor]
        lines.setdefault(round(words.y, 3), []).append((start, start + length))
    for line in lines.values():
        line.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(line))


@pytest.mark.parametrize("name", ["levels", "muting", "muted", "panels"])
def test_legends_are_in_metres(name: str) -> None:
    grid = every_figure()[name]
    bars = [bar for bar in grid.bars if bar.unit]
    assert len(bars) == 2
    assert [bar.unit for bar in bars] in (["m", "m"], ["m", "mm"])
    assert sum(text.endswith((" m", " mm")) for text in texts(grid)) >= 2


def test_normals_have_a_legend_in_degrees() -> None:
    (bar,) = every_figure()["normals"].bars
    assert (bar.low, bar.high, bar.unit) == (0.0, 30.0, "deg")


def test_changes_of_normals_are_told_in_degrees() -> None:
    explanation = explain(explained.normals_network(), explained.picture())
    effects = ablate.mute_each(explanation, 1, [2, 5])
    alone, without = ablate.alone(explanation), ablate.leave_one_out(explanation)
    together = figures.muted_together(explanation, effects[0], NAME)
    each = figures.muting(explanation, explanation.levels[1], {2: effects[0], 5: effects[1]}, NAME)
    for grid in (together, each, figures.levels(explanation, alone, without, NAME)):
        (bar,) = (bar for bar in grid.bars if bar.unit)
        assert (bar.low, bar.unit) == (0.0, "deg")
        assert sum(text.endswith(" deg") for text in texts(grid)) >= 2
        assert "depth" not in " ".join(texts(grid))
    (row,) = together.rows
    assert row[-1].caption == f"{effects[0].change.mean():.2f} deg"
    assert np.array_equal(row[1].picture, visualize.normals_picture(explanation.prediction))


def test_a_contact_sheet_has_all_idrs_with_their_numbers_and_shares() -> None:
    grid = every_figure()["contact"]
    tiles = [tile for row in grid.rows for tile in row if tile]
    assert len(tiles) == explained.IDRS
    shares = usage_of(explained.explanation().levels[1].attention).shares
    assert tiles[3].caption.startswith(f"3 · {shares[3]:.1%}")


def test_the_grid_has_a_row_for_each_idr_below_the_pictures() -> None:
    grid = every_figure()["grid"]
    assert [len(row) for row in grid.rows] == [2] * 4
    assert grid.sides[1:] == [
        "IDR 1\nlevel 0\nstride 16",
        "IDR 2\nlevel 0\nstride 16",
        "IDR 3\nlevel 2\nstride 4",
    ]
    assert list(grid.heads) == ["first", "second"]


def test_below_each_map_stands_the_weight_at_its_bright_end() -> None:
    level = explained.explanation().levels[0]
    bright = np.quantile(level.attention[1], 0.98)
    assert every_figure()["grid"].rows[1][0].caption == f"to {bright:.2f}"
    level = explained.explanation().levels[1]
    bright = np.quantile(level.attention[5], 0.98)
    assert every_figure()["muting"].rows[0][2].caption == f"to {bright:.2f}"


def test_a_level_far_from_the_others_is_told_apart_in_itself() -> None:
    explanation = explained.explanation()
    ramp = np.linspace(0, 1, explanation.depth.size, dtype=np.float32).reshape(
        explanation.depth.shape
    )
    far = ablate.effect(explanation, "far", 50 + 5 * ramp)
    grid = figures.levels(explanation, [far], [], NAME)
    tile = grid.rows[0][2]
    assert tile.caption == "50.10 to 54.90 m"
    assert len(np.unique(tile.picture.reshape(-1, 3), axis=0)) > 10
    assert grid.bars[0].high == pytest.approx(54.9)
    assert grid.bars[0].label == "depth, and beyond"


def test_matrices_have_the_numbers_of_idrs_at_their_edges() -> None:
    grid = every_figure()["likeness"]
    numbers = [words for words in sheets.lay_out(grid).words if words.text in ("2", "4", "6")]
    assert len(numbers) == 2 * 3 * explained.LEVELS
    matrix = sheets.lay_out(grid).pictures[0]
    left = [words for words in numbers if words.x < matrix.x]
    assert [words.text for words in left] == ["2", "4", "6"]
    assert left[0].y == pytest.approx(matrix.y + 2.5 / explained.IDRS * matrix.height)


def test_a_long_grid_still_fits_on_a_page() -> None:
    pair = [("first", explained.explanation())]
    sheet = sheets.lay_out(figures.idr_grid(pair, {0: range(8), 1: range(8)}))
    assert sheet.height < 800  # points; a page of A4 has 842


def test_upright_and_wide_pictures_stand_side_by_side_at_one_height() -> None:
    wide, tall = np.zeros((30, 60, 3), np.uint8), np.zeros((60, 40, 3), np.uint8)
    first, second = sheets.lay_out(Grid(rows=[[Tile(wide), Tile(tall)]])).pictures
    assert first.height == pytest.approx(second.height)
    assert first.width == pytest.approx(3 * second.width)


def test_panels_show_each_model_beside_its_error() -> None:
    grid = every_figure()["panels"]
    assert list(grid.heads) == ["picture", "ground truth", "net0", "error", "net1", "error"]
    row = [tile for tile in grid.rows[0] if tile]
    assert [tile.caption for tile in row] == ["0.jpg", "", "", "mean 0.00 m", "", "mean 0.25 m"]
    blue, red = row[3].picture[-1, -1], row[5].picture[-1, -1]
    assert blue.tolist() == visualize.colourise(np.zeros((1, 1)), 0, 1, "coolwarm")[0, 0].tolist()
    assert (row[3].picture[0] == visualize.EMPTY).all()  # not valid
    half = visualize.colourise(np.full((1, 1), 0.25), 0, 0.5, "coolwarm")[0, 0]
    assert np.abs(red.astype(int) - half).max() <= 3


def test_panels_show_the_photo_in_the_shape_of_its_ground_truth() -> None:
    squeezed = replace(case(), image=explained.picture(size=(48, 48)))
    photo = figures.panels([squeezed], 0.5, "One").rows[0][0]
    assert photo is not None
    height, width = photo.picture.shape[:2]
    assert height / width == pytest.approx(48 / 64)


def test_the_limit_of_changes_is_a_round_number_above_them() -> None:
    explanation = explained.explanation()
    effect = ablate.effect(explanation, "x", explanation.depth + np.float32(0.123))
    (_, bar) = figures.muted_together(explanation, effect, NAME).bars
    assert (bar.low, bar.high) == (-0.15, 0.15)
    still = ablate.effect(explanation, "x", explanation.depth)
    (_, bar) = figures.muted_together(explanation, still, NAME).bars
    assert (bar.low, bar.high, bar.unit) == (-10, 10, "mm")


@pytest.mark.parametrize(
    ("metres", "text"),
    [(0.0, "0.0 mm"), (0.00042, "0.4 mm"), (0.0123, "12 mm"), (0.123, "0.12 m"), (4.5, "4.50 m")],
)
def test_small_lengths_are_told_in_millimetres(metres: float, text: str) -> None:
    assert look.length_text(metres) == text


@pytest.mark.parametrize("end", [0.015, 0.0015, 12345.0])
def test_long_numbers_below_a_bar_become_fewer(end: float) -> None:
    grid = Grid(rows=[[Tile(RED)]], bars=[Bar(-end, end, "PuOr_r", "change")])
    words = [each for each in sheets.lay_out(grid).words if each.text != "change"]
    assert len(words) >= 3
    lengths = [font(each.size).getlength(each.text) for each in words]
    for (one, other), (left, right) in zip(pairwise(words), pairwise(lengths), strict=True):
        assert one.x + left / 2 + 2 < other.x - right / 2


def test_owners_of_pixels_are_named_where_they_are() -> None:
    hard = every_figure()["partition"].rows[0]
    for level, tile in zip(explained.explanation().levels, hard[1:], strict=True):
        assert tile is not None
        assert tile.caption.endswith(f" of {explained.IDRS}")
        assert tile.marks
        assert {int(text) for _, _, text in tile.marks} <= set(level.dominant.ravel())


def test_names_of_owners_keep_apart() -> None:
    dominant = np.zeros((60, 80), np.intp)
    dominant[29:31, :] = 1  # a stripe through the middle of the first
    dominant[:, 70:] = 2
    marks = figures.place_names(dominant, [0, 1, 2])
    assert {text for _, _, text in marks} == {"0", "1", "2"}
    for across, down, text in marks:
        assert dominant[int(down * 60), int(across * 80)] == int(text)
    for (left, top, _), (right, below, _) in combinations(marks, 2):
        assert abs(left - right) >= 0.14 or abs(top - below) >= 0.11


def test_a_bar_shows_its_whole_map_and_round_numbers() -> None:
    grid = Grid(rows=[[Tile(RED)]], bars=[Bar(0.7, 9.3, "magma_r", "depth")])
    sheet = sheets.lay_out(grid)
    ramp = sheet.pictures[-1].picture
    assert ramp[0, 0].tolist() == [252, 253, 191]
    assert ramp[0, -1].tolist() == [0, 0, 4]
    assert [words.text for words in sheet.words] == ["depth", "2", "4", "6", "8 m"]


def test_a_file_is_at_print_size_and_says_what_made_it(tmp_path: Path) -> None:
    grid = Grid(rows=[[Tile(RED, "red")] * 3], title=NAME)
    path = sheets.save(grid, tmp_path / "figure.png", {"model": "tiny"})
    with Image.open(path) as picture:
        assert picture.width == round(sheets.WIDTH / 72 * sheets.DPI)
        assert picture.info["dpi"] == pytest.approx((sheets.DPI, sheets.DPI), abs=0.1)
        assert picture.info["Title"] == "kuche ??.jpg"
        assert '"model": "tiny"' in picture.info["idisc"]
        assert picture.getpixel((picture.width // 6, picture.height // 2)) == (200, 0, 0)
    assert [each.name for each in tmp_path.iterdir()] == ["figure.png"]


def test_long_names_do_not_run_into_each_other() -> None:
    grid = Grid(rows=[[Tile(RED)] * 8], heads=["a very long name of a picture"] * 8)
    assert all(len(text) < 20 and text.endswith("..") for text in texts(grid))


def test_pdf_has_letters_as_letters_and_fonts_inside(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    grid = every_figure()["levels"]
    content = sheets.save(grid, tmp_path / "figure.pdf", {"model": "tiny"}).read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/FontFile2" in content  # TrueType, embedded
    assert b"DejaVuSans" in content
    width = content.partition(b"/MediaBox [")[2].split()[2]
    assert float(width) == pytest.approx(sheets.WIDTH)
    again = sheets.save(grid, tmp_path / "again.pdf", {"model": "tiny"}).read_bytes()
    assert again == content


def test_pdf_without_matplotlib_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'idisc\[figures\]'"):
        sheets.save(Grid(rows=[[Tile(RED)]]), tmp_path / "figure.pdf", {})
    assert list(tmp_path.iterdir()) == []


def test_the_page_stands_alone_and_escapes_names() -> None:
    collector = Collector()
    collector.add("<b>.png", explained.explanation())
    collector.add("2.png", explained.explanation(1))
    page = usage_page.page(collector.report(), "tiny & co", {"model": "<tiny>"})
    assert "<title>tiny &amp; co: usage of IDRs</title>" in page
    assert "<b>.png" not in page
    assert "&lt;tiny&gt;" in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("data:image/png;base64,") == 6
    assert page.count('class="bar"') == explained.LEVELS * explained.IDRS
    assert page.count('dy="0.35em">6</text>') == 6  # beside each matrix
    assert page.count('<td class="words wraps">') == 12
