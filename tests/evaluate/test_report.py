"""Reports: comparison with the paper, files that parse, a self-contained page."""

import base64
import csv
import io
import json
import math
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.fakes.scored import dataset_of, normals_dataset

from idisc import __version__
from idisc.ancestry import Parent
from idisc.configs import paper, recipes
from idisc.data import catalog
from idisc.evaluate import html_report, report, tables
from idisc.evaluate.calibration import Calibration, Part
from idisc.evaluate.distances import Bin
from idisc.evaluate.protocols import PROTOCOLS
from idisc.evaluate.run import Result, evaluate
from idisc.evaluate.scoring import Row
from idisc.evaluate.units import UnitHint
from idisc.provenance import ModelInfo

PAPER = PROTOCOLS["paper"]
NAMES = ("a.png", 'halls & <b>"rooms".png', "no truth.png")
ABOUT = {"weights": "mine <script>alert(1)</script>", "weights_sha256": "12" * 32}
TOTALS = {"d05": 0.8, "d1": 0.9, "rmse": 0.4, "abs_rel": 0.1, "silog": 12.3, "rmse_log": math.nan}


def ramps(root, size, factor=1.0):
    """Three pictures whose depth grows to the right; the last one has no ground truth."""
    ramp = np.tile(np.linspace(1, 4, size[1]), (size[0], 1))
    depths = (factor * ramp, factor * (ramp + 1), 0 * ramp)
    return dataset_of(root, {Path(name).stem: d for name, d in zip(NAMES, depths, strict=True)})


def ten_percent_too_far(sample):
    return np.where(sample.target > 0, sample.target, 1) * np.float32(1.1)


@pytest.fixture
def result(tmp_path):
    dataset = ramps(tmp_path, (48, 64))
    return replace(evaluate(dataset, ten_percent_too_far)[0], about=ABOUT)


def bare_result(dataset, protocol="paper", **totals):
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

    def __init__(self, result):
        super().__init__()
        self.tags = []
        self.text = ""
        self.html = html_report.page(result, report.to_json(result))
        self.feed(self.html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all_of(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]


PARTS = tuple(Part(0.1 * n, 0.2 * n, 0.05 * n, 100) for n in range(1, 4))
NYU = "nyu_r101 nyu_eb5 nyu_swint nyu_swinb nyu_swinl"
KITTI = "kitti_r101 kitti_eb5 kitti_swint kitti_swinb kitti_swinl"
DEVKIT = {"silog": 10.0, "sq_rel_percent": 2.0, "abs_rel_percent": 9.0, "irmse": 11.0}
CLOUDS = {"chamfer": 0.2, "d1": 0.9, "abs_rel": 0.1}


@pytest.mark.parametrize(
    ("result", "columns", "names", "notes"),
    [
        (bare_result("nyu"), "d1 d2 d3 rmse abs_rel log10", NYU, "swin_large_22k"),
        (bare_result("kitti"), "d05 d1 d2 rmse rmse_log abs_rel sq_rel", KITTI, "swin_tiny"),
        (
            bare_result("nyu_normals", mean_deg=20.0),
            "a11.5 a22.5 a30 rmse_deg mean_deg median_deg",
            "nyunorm_swinl",
            "swin_large_22k",
        ),
        (  # zero-shot networks add columns at the end
            bare_result("argoverse:paper"),
            "d1 d2 d3 rmse rmse_log abs_rel sq_rel silog",
            "kitti_argo argo_swinl",
            "swin_large_22k, trained on kitti",
        ),
        (
            bare_result("kitti", "kitti-devkit", **DEVKIT),
            " ".join(DEVKIT),
            "kitti_swinl",
            "swin_large_22k, online test set",
        ),
        (bare_result("nyu", "affine"), " ".join(TOTALS), "", ""),  # the paper's are not aligned
        (bare_result("folder"), " ".join(TOTALS), "", ""),
    ],
    ids=["nyu", "kitti", "normals", "zero-shot", "devkit", "aligned", "folder"],
)
def test_a_result_is_compared_with_the_numbers_of_the_paper(result, columns, names, notes):
    found, rows = tables.compare_with_paper(result)
    assert list(found) == columns.split()
    assert [row.name for row in rows] == ["this result", *names.split()]
    assert notes in [row.note for row in rows]
    numbers = paper.KITTI_BENCHMARK if result.protocol.name == "kitti-devkit" else paper.RESULTS
    assert [row.numbers for row in rows[1:]] == [numbers[row.name] for row in rows[1:]]
    assert rows[0].numbers == result.totals


def test_point_clouds_are_compared_in_a_table_of_their_own():
    columns, rows = tables.compare_with_paper(bare_result("nyu", **CLOUDS))
    assert columns[-7:] == (*(f"f1_{d}" for d in (0.05, 0.1, 0.2, 0.3, 0.5, 0.75)), "chamfer")
    assert (rows[-1].numbers["f1_0.05"], rows[-1].numbers["chamfer"]) == (0.278, 0.131)
    assert "chamfer" not in rows[1].numbers
    assert len(Page(bare_result("nyu", **CLOUDS)).all_of("table")) == 3


def test_every_number_of_the_paper_has_a_meaning_and_a_recipe():
    for table in (paper.RESULTS, paper.KITTI_BENCHMARK, paper.CLOUDS):
        for name, numbers in table.items():
            assert name in recipes.RECIPES
            assert set(numbers) <= set(tables.MEANINGS)


def test_numbers_have_sensible_digits():
    values = {"d1": 0.94, "rmse": 12.18, "silog": 10.914, "mean_deg": 14.62, "abs_rel": math.nan}
    texts = [tables.format_value(name, value) for name, value in values.items()]
    assert texts == ["0.940", "12.18", "10.91", "14.6", ""]
    assert tables.format_value("rmse", None) == ""


def test_the_best_of_a_column_follows_its_direction():
    assert tables.best_of("d1", [0.9, None, 0.95]) == 2
    assert tables.best_of("rmse", [0.9, math.nan, 0.95]) == 0
    assert tables.best_of("rmse", [0.9, None]) is None


def test_json_has_no_nan_and_contains_the_origin_of_the_numbers(tmp_path):
    curve = Calibration(PARTS, 0.5, math.nan)
    unusual = {"about": ABOUT, "intervals": {"d1": (0.8, math.inf)}, "calibration": curve}
    report.write(replace(bare_result("nyu"), **unusual), tmp_path)
    text = (tmp_path / "report.json").read_text("utf-8")
    assert not re.search(r"\b(NaN|Infinity)\b", text)
    record = json.loads(text)
    assert (record["totals"]["rmse_log"], record["totals"]["d1"]) == (None, 0.9)
    assert record["intervals"]["d1"] == [0.8, None]
    applied = {"window": "dataset", "min_depth": 0.01, "max_depth": 10, "batch_size": None}
    assert (record["protocol"]["name"], record["protocol"]["applied"]) == ("paper", applied)
    assert record["bootstrap"] == {"level": 0.95, "resamples": 1000, "seed": 13}
    assert (record["about"], record["versions"]["idisc"]) == (ABOUT, __version__)
    assert record["paper"]["nyu_swinl"]["d1"] == 0.940
    assert (record["level_std"]["rank_correlation"], record["level_std"]["error_per_std"]) == (
        *(0.5, None),
    )
    part = {"level_std": 0.2, "abs_error": 0.4, "abs_rel": 0.1, "pixels": 100}
    assert record["level_std"]["parts"][1] == part


def test_json_and_page_show_the_ratio_and_the_hint_about_the_unit(result):
    record = report.to_json(result)
    assert (record["median_ratio"], record["unit_hint"]) == (pytest.approx(1.1), None)
    assert "Predictions are 1.1 times the ground truth" in Page(result).text
    unit = UnitHint("unit", {"unit": "1/256 m (KITTI)", "scale": 1 / 256, "used": 0.001})
    assert "try --scale 0.00390625" in tables.describe_hint(unit)
    for hint in (unit, UnitHint("inverse_depth", {"correlation": -0.9}), UnitHint("ratio")):
        hinted = replace(result, unit_hint=hint)
        assert tables.describe_hint(hint) in Page(hinted).text
        found = report.to_json(hinted)["unit_hint"]
        assert (found["code"], found["details"]) == (hint.code, hint.details)


CHILD = ModelInfo(
    name="child",
    sha256="12" * 32,
    data=("streets", "rooms"),
    licence="CC BY-NC 4.0",
    non_commercial=True,
    parents=(Parent(name="mother", sha256="ab" * 32), Parent(name="grandmother")),
)


def sources_of(result):
    """The groups of names and values at the end of the page."""
    end = Page(result).html.partition("<h2>Where the numbers come from</h2>")[2]
    groups = re.findall(r"<h3>(.*?)</h3>(.*?)</dl>", end, re.DOTALL)
    return {title: dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", rows)) for title, rows in groups}


def test_the_terms_of_the_model_are_shown_apart_from_those_of_the_dataset():
    result = replace(bare_result("kitti"), model=CHILD, about={"weights": "child"})
    assert "child (not for commercial use) · " in Page(result).text
    sources = sources_of(result)
    assert list(sources) == ["Model", "Dataset", "Evaluation"]
    assert sources["Model"] == {
        "name": "child",
        "SHA-256": "12" * 32,
        "licence of the model": "CC BY-NC 4.0",
        "commercial use": "excluded",
        "trained on": "streets; rooms",
        "trained from": "mother (sha256 abababababab), grandmother (sha256 unknown)",
        "checksum": "none in the file, so it is unverified",
    }
    assert sources["Dataset"]["licence of the dataset"] == catalog.KITTI.licence
    record = json.loads(json.dumps(report.to_json(result)))
    fields = ("name", "licence", "non_commercial", "data", "verified")
    assert [record["model"][name] for name in fields] == [
        *("child", "CC BY-NC 4.0", True, ["streets", "rooms"], False)
    ]
    assert record["model"]["parents"][1] == {"name": "grandmother", "sha256": ""}
    dataset = record["dataset"]
    assert (dataset["licence"], dataset["non_commercial"]) == (catalog.KITTI.licence, True)


@pytest.mark.parametrize(
    ("terms", "commercial", "checksum"),
    [
        ({"licence": "MIT", "verified": True}, "not excluded by these terms", "verified"),
        ({}, "unknown", "none in the file, so it is unverified"),
    ],
)
def test_other_terms_and_checksums_are_shown(terms, commercial, checksum):
    model = ModelInfo(name="x", sha256="", **terms)
    found = sources_of(replace(bare_result("nyu"), model=model))["Model"]
    assert (found["commercial use"], found["checksum"]) == (commercial, checksum)


def test_the_csv_contains_every_number_exactly(result, tmp_path):
    report.write(result, tmp_path / "out")
    with (tmp_path / "out" / "images.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["name"] for line in lines] == list(NAMES)
    for line, row in zip(lines, result.rows, strict=True):
        assert int(line["pixels"]) == row.pixels
        assert {name: float(line[name]) for name in result.totals if line[name]} == row.numbers
    assert lines[2]["abs_rel"] == ""  # no ground truth
    record = report.to_json(result)
    assert (record["dataset"]["scored"], record["dataset"]["skipped"]) == (2, 1)
    assert sum(bin_["pixels"] for bin_ in record["by_distance"]) == 2 * 48 * 64


def test_the_same_result_gives_the_same_bytes(result, tmp_path):
    for name in ("first", "second"):
        report.write(result, tmp_path / name)
    files = [sorted((tmp_path / name).iterdir()) for name in ("first", "second")]
    assert [path.name for path in files[0]] == ["images.csv", "report.html", "report.json"]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_the_page_is_self_contained_and_escapes_names(result):
    page = Page(result)
    assert not {"script", "link", "iframe", "object", "b"} & {tag for tag, _ in page.tags}
    sources = [str(value) for _, each in page.tags for key, value in each.items() if key == "src"]
    assert sources
    assert all(source.startswith("data:image/") for source in sources)
    assert not re.search(r"https?://|@import", page.html)
    policy = {each.get("http-equiv"): each.get("content") for each in page.all_of("meta")}
    assert str(policy["Content-Security-Policy"]).startswith("default-src 'none'")
    assert NAMES[1] in page.text
    assert ABOUT["weights"] in page.text
    assert f"Error of {NAMES[1]}" in [image["alt"] for image in page.all_of("img")]


def test_worst_pictures_are_shown_with_ground_truth_prediction_and_error(result):
    page = Page(result)
    images = page.all_of("img")
    assert len(images) == 2 * 4  # the third picture has no ground truth
    for image in images:
        data = base64.b64decode(str(image["src"]).partition("base64,")[2])
        with Image.open(io.BytesIO(data)) as picture:
            assert picture.size == (64, 48) == (int(image["width"] or 0), int(image["height"] or 0))
            picture.load()
    assert "≥ 0.5 m" in page.text


def test_large_pictures_are_reduced_and_far_errors_have_the_colours_of_a_road(tmp_path):
    dataset = ramps(tmp_path, (600, 1920), factor=10)
    page = Page(evaluate(dataset, ten_percent_too_far)[0])
    assert {(each["width"], each["height"]) for each in page.all_of("img")} == {("640", "200")}
    assert {"class": "pictures wide"} in page.all_of("div")
    assert "≥ 5 m" in page.text


def test_normals_are_reported_as_angles(tmp_path):
    dataset = normals_dataset(tmp_path, np.tile(np.float32([0, 0, 1]), (48, 64, 1)))
    tilted = np.float32([1, 0, 1])
    page = Page(evaluate(dataset, lambda sample: np.zeros_like(sample.target) + tilted)[0])
    assert "≥ 30°" in page.text
    assert "mean_deg 44.8°" in page.text
    assert "no interval" in page.text  # one picture cannot be resampled
    assert "Error by distance" not in page.text


BINS = (Bin(0, 10, 300, 0.05, 0.2, -0.1), Bin(10, 20, 100, 0.1, 1.5, 0.4))
CHARTED = replace(
    bare_result("kitti"),
    by_distance=BINS,
    rows=tuple(Row(f"{i}.png", 10, {"abs_rel": i / 50}) for i in range(20)),
    calibration=Calibration(PARTS, 0.5, math.nan),
)


def test_charts_have_labels_and_tooltips():
    pytest.importorskip("matplotlib")
    page = Page(CHARTED)
    assert [drawing["aria-label"] for drawing in page.all_of("svg")] == [
        *("Error by distance", "Error by deviation of the levels", "Picture by picture")
    ]
    assert "10 to 20 m: abs_rel 0.100, mean |error| 1.50 m, bias +0.40 m, 100 pixels" in page.text
    assert "deviation 0.200 m: mean |error| 0.400 m, abs_rel 0.100, 100 pixels" in page.text
    assert "0.1 to 0.2: 5 pictures" in page.text
    assert "median 0.19" in page.text


def test_without_matplotlib_the_page_names_the_extra_that_adds_charts(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = Page(CHARTED)
    assert page.all_of("svg") == []
    assert len(page.all_of("table")) == 2
    assert page.text.count("idisc[figures]") == 1
    assert "Rank correlation over all pixels: 0.50" in page.text


def test_perfect_predictions_can_be_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    dataset = ramps(tmp_path, (8, 8))
    exact = evaluate(dataset, lambda sample: np.maximum(sample.target, 1))[0]
    assert "median 0" in Page(exact).text
