"""Reports: numbers beside the paper's, files that parse, a page that needs nothing but itself."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from idisc import __version__, paper, recipes
from idisc.data import catalog
from idisc.data.dataset import Dataset, Sample
from idisc.data.decode import DepthMap, NormalMap, write_depth
from idisc.data.manifest import Manifest, Record
from idisc.evaluate import html_report, report, tables
from idisc.evaluate.calibration import MEANING, Calibration, Part
from idisc.evaluate.protocols import PROTOCOLS
from idisc.evaluate.run import Bin, Result, Row, evaluate

PAPER = PROTOCOLS["paper"]
NAMES = ("a.png", 'halls & <b>"rooms".png', "no truth.png")
ABOUT = {"weights": "mine <script>alert(1)</script>", "weights_sha256": "12" * 32}
TOTALS = {"d05": 0.8, "d1": 0.9, "rmse": 0.4, "abs_rel": 0.1, "silog": 12.3, "rmse_log": math.nan}


def folder_of_pairs(root: Path, spec: catalog.DatasetSpec, size: tuple[int, int]) -> Dataset:
    """Three photos with ramps of depth in millimetres; the last has no ground truth."""
    records = []
    for number, name in enumerate(NAMES):
        depth = np.tile(np.linspace(1 + number, 4 + number, size[1]), (size[0], 1))
        write_depth(root / f"{number}.depth.png", np.float32(depth * (number < 2)), 1 / 1000)
        Image.new("RGB", size[::-1], (50 * number, 90, 120)).save(root / name)
        records.append(Record(image=name, target=f"{number}.depth.png", split="test"))
    target = DepthMap(metres_per_unit=1 / 1000)
    manifest = Manifest(
        dataset=spec.name, target=target, records=tuple(records), root=root, sha256="ab" * 32
    )
    return Dataset(manifest, "test", spec)


def ten_percent_too_far(sample: Sample) -> np.ndarray:
    return np.where(sample.target > 0, sample.target, 1) * np.float32(1.1)


@pytest.fixture
def result(tmp_path: Path) -> Result:
    dataset = folder_of_pairs(tmp_path, catalog.FOLDER, (48, 64))
    return replace(evaluate(dataset, ten_percent_too_far, [PAPER])[0], about=ABOUT)


def bare_result(dataset: str, protocol: str = "paper", **totals: float) -> Result:
    """A result of which only the totals matter."""
    return Result(
        spec=catalog.find(dataset),
        split="test",
        protocol=PROTOCOLS[protocol],
        manifest_sha256="",
        totals=totals or TOTALS,
        intervals={},
        rows=(),
        by_distance=(),
        worst=(),
        skipped=0,
    )


class Page(HTMLParser):
    """The tags of a page with their attributes, and all of its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all_of(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def page_of(result: Result) -> Page:
    return Page(html_report.page(result, report.to_json(result)))


def strictly(text: str) -> object:
    def refuse(name: str) -> object:
        raise ValueError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_nyu_stands_beside_the_five_networks_of_the_paper() -> None:
    columns, rows = tables.rows_beside_paper(bare_result("nyu"))
    assert columns == ("d1", "d2", "d3", "rmse", "abs_rel", "log10")
    assert rows[0] == ("this result", "", (0.9, None, None, 0.4, 0.1, None))
    published = ["nyu_r101", "nyu_eb5", "nyu_swint", "nyu_swinb", "nyu_swinl"]
    assert [row.name for row in rows[1:]] == published
    assert rows[-1].values == (0.940, 0.993, 0.999, 0.313, 0.086, 0.037)
    assert rows[-1].note == "swin_large_22k"


def test_kitti_has_its_own_columns() -> None:
    columns, rows = tables.rows_beside_paper(bare_result("kitti"))
    assert columns == ("d05", "d1", "d2", "rmse", "rmse_log", "abs_rel", "sq_rel")
    assert rows[3].name == "kitti_swint"
    assert rows[3].values == (0.870, 0.968, 0.996, 2.291, 0.087, 0.058, 0.184)


def test_normals_stand_beside_the_one_network_of_the_paper() -> None:
    columns, rows = tables.rows_beside_paper(bare_result("nyu_normals", mean_deg=20.0))
    assert columns == ("a11.5", "a22.5", "a30", "rmse_deg", "mean_deg", "median_deg")
    assert rows[0].values == (None, None, None, None, 20.0, None)
    assert rows[1].values == (0.638, 0.798, 0.856, 22.8, 14.6, 7.3)


def test_zero_shot_networks_say_what_they_learnt_from_and_add_columns_at_the_end() -> None:
    columns, rows = tables.rows_beside_paper(bare_result("argoverse:paper"))
    assert columns == ("d1", "d2", "d3", "rmse", "rmse_log", "abs_rel", "sq_rel", "silog")
    assert rows[1].note == "swin_large_22k, trained on kitti"
    assert rows[1].values == (0.560, None, None, 12.18, None, 0.269, None, 33.35)
    assert rows[2].name == "argo_swinl"
    assert rows[2].values[-1] is None


def test_a_folder_of_ones_own_stands_alone() -> None:
    columns, rows = tables.rows_beside_paper(bare_result("folder"))
    assert columns == tuple(TOTALS)
    assert len(rows) == 1


def test_kittis_own_metrics_stand_beside_the_online_benchmark() -> None:
    totals = {"silog": 10.0, "sq_rel_percent": 2.0, "abs_rel_percent": 9.0, "irmse": 11.0}
    columns, rows = tables.rows_beside_paper(bare_result("kitti", "kitti-devkit", **totals))
    assert columns == tuple(totals)
    assert [row.name for row in rows] == ["this result", "kitti_swinl"]
    assert rows[1].values == (9.89, 1.77, 8.11, 10.73)
    assert rows[1].note == "swin_large_22k, online test set"


def test_point_clouds_stand_beside_those_of_the_paper_where_they_were_asked_for() -> None:
    columns, rows = tables.rows_beside_paper(bare_result("nyu", chamfer=0.2, d1=0.9, abs_rel=0.1))
    assert columns[-7:] == (*(f"f1_{d}" for d in (0.05, 0.1, 0.2, 0.3, 0.5, 0.75)), "chamfer")
    assert rows[-1].values[-7:] == (0.278, 0.520, 0.770, 0.878, 0.955, 0.981, 0.131)
    assert rows[1].values[-1] is None
    page = page_of(bare_result("nyu", chamfer=0.2, d1=0.9, abs_rel=0.1))
    assert len(page.all_of("table")) == 3  # clouds are a table of their own


def test_every_number_of_the_paper_has_a_meaning_and_a_recipe() -> None:
    for table in (paper.RESULTS, paper.KITTI_BENCHMARK, paper.CLOUDS):
        for name, numbers in table.items():
            assert name in recipes.RECIPES
            assert set(numbers) <= set(tables.MEANINGS)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("d1", 0.94, "0.940"),
        ("rmse", 12.18, "12.18"),
        ("silog", 10.914, "10.91"),
        ("mean_deg", 14.62, "14.6"),
        ("rmse", math.nan, ""),
        ("rmse", None, ""),
    ],
)
def test_numbers_have_sensible_digits(name: str, value: float | None, expected: str) -> None:
    assert tables.text(name, value) == expected


def test_the_best_of_a_column_follows_its_direction() -> None:
    assert tables.best_of("d1", [0.9, None, 0.95]) == 2
    assert tables.best_of("rmse", [0.9, math.nan, 0.95]) == 0
    assert tables.best_of("rmse", [0.9, None]) is None


def test_json_has_no_nan_and_says_where_the_numbers_come_from(tmp_path: Path) -> None:
    result = replace(bare_result("nyu"), about=ABOUT, intervals={"d1": (0.8, math.inf)})
    report.write(result, tmp_path)
    read = strictly((tmp_path / "report.json").read_text("utf-8"))
    assert isinstance(read, dict)
    assert read["totals"]["rmse_log"] is None
    assert read["totals"]["d1"] == 0.9
    assert read["intervals"]["d1"] == [0.8, None]
    assert read["protocol"]["name"] == "paper"
    assert read["protocol"]["applied"] == {
        "window": "dataset",
        "min_depth": 0.01,
        "max_depth": 10,
        "batch_size": None,
    }
    assert read["bootstrap"] == {"level": 0.95, "resamples": 1000, "seed": 13}
    assert read["about"] == ABOUT
    assert read["versions"]["idisc"] == __version__
    assert read["paper"]["nyu_swinl"]["d1"] == 0.940


@pytest.mark.parametrize(
    ("count", "prepared", "text"),
    [
        (8, {}, "8 of the 654 pictures"),
        (654, {}, "654 pictures"),
        (1449, {}, "1,449 pictures (the paper: 654)"),
        (8, {"faults": 3}, "8 of the 654 pictures, preparation incomplete, 3 faults"),
    ],
)
def test_a_part_of_a_dataset_is_called_one(count: int, prepared: dict[str, int], text: str) -> None:
    rows = tuple(Row(f"{number}.png", 1, {}) for number in range(count))
    result = replace(bare_result("nyu"), rows=rows, prepared=prepared)
    assert tables.scored(result) == text
    assert report.to_json(result)["dataset"]["prepared"] == prepared


def test_a_few_holes_are_not_none() -> None:
    result = replace(bare_result("folder"), rows=(Row("a.png", 1, {}),), holes=1e-6)
    assert tables.scored(result) == (
        "1 picture, holes skipped: less than 0.1% of the valid pixels not scored"
    )
    assert "less than 0.1% of these pixels" in tables.measured(result)


@pytest.mark.parametrize(
    ("dataset", "window"), [("nyu", "dataset"), ("kitti", "full_frame"), ("ddad", "none")]
)
def test_the_window_is_stated_as_it_was_applied(dataset: str, window: str) -> None:
    protocol = report.to_json(bare_result(dataset, "bts"))["protocol"]
    assert (protocol["window"], protocol["applied"]["window"]) == ("full_frame", window)


def test_counts_of_pictures_and_bins_of_distance_are_in_the_json(result: Result) -> None:
    read = report.to_json(result)
    assert (read["dataset"]["scored"], read["dataset"]["skipped"]) == (2, 1)
    assert read["dataset"]["manifest_sha256"] == "ab" * 32
    assert sum(each["pixels"] for each in read["by_distance"]) == 2 * 48 * 64


def test_the_csv_gives_back_every_number_exactly(result: Result, tmp_path: Path) -> None:
    report.write(result, tmp_path / "out")
    with (tmp_path / "out" / "images.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["name"] for line in lines] == list(NAMES)
    for line, row in zip(lines, result.rows, strict=True):
        assert int(line["pixels"]) == row.pixels
        numbers = {name: float(line[name]) for name in result.totals if line[name]}
        assert numbers == row.numbers
    assert lines[2]["abs_rel"] == ""  # no truth, no number


def test_the_same_result_gives_the_same_bytes(result: Result, tmp_path: Path) -> None:
    for name in ("first", "second"):
        report.write(result, tmp_path / name)
    files = [sorted((tmp_path / name).iterdir()) for name in ("first", "second")]
    assert [path.name for path in files[0]] == ["images.csv", "report.html", "report.json"]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_the_page_loads_nothing_from_elsewhere(result: Result) -> None:
    html = html_report.page(result, report.to_json(result))
    page = Page(html)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    sources = [str(value) for _, each in page.tags for key, value in each.items() if key == "src"]
    assert sources
    assert all(source.startswith("data:image/") for source in sources)
    assert not re.search(r"https?://|@import", html)
    policy = {each.get("http-equiv"): each.get("content") for each in page.all_of("meta")}
    assert str(policy["Content-Security-Policy"]).startswith("default-src 'none'")


def test_names_from_outside_are_escaped(result: Result) -> None:
    html = html_report.page(result, report.to_json(result))
    assert "<script" not in html
    assert "<b>" not in html
    page = Page(html)
    assert NAMES[1] in page.text
    assert ABOUT["weights"] in page.text
    assert f"Error of {NAMES[1]}" in [image["alt"] for image in page.all_of("img")]


def test_worst_pictures_come_with_truth_prediction_and_error(result: Result) -> None:
    page = page_of(result)
    images = page.all_of("img")
    assert len(images) == 2 * 4  # the third has nothing to show
    for image in images:
        data = base64.b64decode(str(image["src"]).partition("base64,")[2])
        with Image.open(io.BytesIO(data)) as picture:
            assert picture.size == (64, 48) == (int(image["width"] or 0), int(image["height"] or 0))
            picture.load()
    assert "≥ 0.5 m" in page.text
    assert "Error colours stop at 0.5\u00a0m" in page.text


def test_large_pictures_are_reduced(tmp_path: Path) -> None:
    dataset = folder_of_pairs(tmp_path, catalog.FOLDER, (600, 1920))
    page = page_of(evaluate(dataset, ten_percent_too_far, [PAPER])[0])
    assert {(each["width"], each["height"]) for each in page.all_of("img")} == {("640", "200")}
    assert {"class": "pictures wide"} in page.all_of("div")


def test_far_ground_truth_of_a_folder_has_the_colours_of_a_road(tmp_path: Path) -> None:
    dataset = folder_of_pairs(tmp_path, catalog.FOLDER, (8, 8))
    far = replace(dataset.source, target=DepthMap(metres_per_unit=1 / 100))
    page = page_of(evaluate(Dataset(far, "test", catalog.FOLDER), ten_percent_too_far, [PAPER])[0])
    assert "≥ 5 m" in page.text


def test_normals_are_reported_by_angles(tmp_path: Path) -> None:
    towards = np.zeros((480, 640, 3), np.uint8) + np.uint8([128, 128, 255])
    for name in ("rgb.png", "normals.png"):
        Image.fromarray(towards).save(tmp_path / name)
    records = (Record(image="rgb.png", target="normals.png", split="test"),)
    source = Manifest(dataset="nyu_normals", target=NormalMap(), records=records, root=tmp_path)
    tilted = np.float32([1, 0, 1])
    dataset = Dataset(source, "test", catalog.NYU_NORMALS)
    result = evaluate(dataset, lambda sample: np.zeros_like(sample.target) + tilted, [PAPER])[0]
    page = page_of(result)
    assert "Error colours stop at 30°" in page.text
    assert "mean_deg 44.8°" in page.text
    assert "no interval" in page.text  # one picture cannot be drawn anew
    assert "Error against distance" not in page.text


def test_the_headline_comes_with_intervals_and_directions(result: Result) -> None:
    text = page_of(result).text
    assert "abs_rel0.10095 %: 0.100 to 0.100lower is better" in text
    assert "d11.00095 %: 1.000 to 1.000higher is better" in text
    assert "2 pictures, 1 without a valid pixel left out · protocol paper" in text


def test_the_page_says_how_it_was_measured() -> None:
    text = tables.measured(bare_result("diode"))
    assert text.startswith("Protocol paper, after the paper's text")
    assert "more than 0.01 m and less than 10 m counts, inside the window" in text
    assert "not clamped; they are multiplied so that each picture's mean is that" in text
    assert text.endswith("then averaged over the pictures.")
    text = tables.measured(bare_result("kitti", "bts"))
    assert "counted on the full frame" in text
    assert "Predictions are clamped to that range; they are not rescaled." in text
    text = tables.measured(bare_result("kitti", "kitti-devkit"))
    assert "no upper bound counts, everywhere in the picture" in text
    eigen = replace(PROTOCOLS["paper"], window="eigen")
    text = tables.measured(replace(bare_result("kitti"), protocol=eigen))
    assert "inside the window of Eigen et al., counted on the picture as the network sees" in text


def test_averages_by_batch_warn_that_the_numbers_depend_on_its_size() -> None:
    text = tables.measured(bare_result("kitti", "published-code"))
    assert "pixels of 8 pictures at a time" in text
    assert "depend on the batch size, here N = 8" in text
    applied = report.to_json(bare_result("ddad", "published-code"))["protocol"]["applied"]
    assert applied["batch_size"] == 4


def test_charts_have_titles_axes_and_numbers_under_the_pointer() -> None:
    bins = (Bin(0, 10, 300, 0.05, 0.2, -0.1), Bin(10, 20, 100, 0.1, 1.5, 0.4))
    rows = tuple(Row(f"{i}.png", 10, {"abs_rel": i / 50}) for i in range(20))
    page = page_of(replace(bare_result("kitti"), by_distance=bins, rows=rows))
    drawings = [each for each in page.all_of("svg") if each.get("role") == "img"]
    assert [str(each["aria-label"])[:34] for each in drawings] == [
        "abs_rel against the distance of th",
        "how many pictures have which abs_r",
    ]
    assert "10 to 20 m: abs_rel 0.100, mean |error| 1.50 m, bias +0.40 m, 100 pixels" in page.text
    assert "distance of the ground truth, m" in page.text
    assert "0.1 to 0.2: 5 pictures" in page.text
    assert "median 0.19" in page.text


def test_perfect_predictions_can_be_drawn_too(tmp_path: Path) -> None:
    dataset = folder_of_pairs(tmp_path, catalog.FOLDER, (8, 8))
    exact = evaluate(dataset, lambda sample: np.maximum(sample.target, 1), [PAPER])[0]
    assert "median 0" in page_of(exact).text


def test_the_curve_of_the_spread_is_in_json_and_page_with_its_meaning(result: Result) -> None:
    assert report.to_json(result)["spread"] is None
    assert "Error against spread" not in page_of(result).text
    parts = tuple(Part(0.1 * n, 0.2 * n, 0.05 * n, 100) for n in range(1, 4))
    with_spread = replace(result, calibration=Calibration(parts, 0.5, math.nan))
    record = report.to_json(with_spread)["spread"]
    assert record["meaning"] == MEANING
    assert (record["rank_correlation"], record["error_per_spread"]) == (0.5, None)
    assert record["parts"][1] == {"spread": 0.2, "abs_error": 0.4, "abs_rel": 0.1, "pixels": 100}
    page = page_of(with_spread)
    assert "Error against spread" in page.text
    assert "it is no error bound. Rank correlation over all pixels: 0.50" in page.text
    assert len(page.all_of("svg")) == len(page_of(result).all_of("svg")) + 1
