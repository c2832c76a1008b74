"""Errors: their fields, their text, and missing optional packages."""

import pickle

import pytest
from tests.fakes.refusals import refused

from idisc import errors


def test_text_is_subject_reason_and_remedy():
    error = errors.InputError("depth.png", "8-bit", "save it as 16-bit PNG")
    assert str(error) == "depth.png: 8-bit; save it as 16-bit PNG"
    assert str(errors.InputError("depth.png", "8-bit")) == "depth.png: 8-bit"
    assert str(errors.InputError("", "8-bit")) == "8-bit"


def test_an_error_may_be_part_of_a_larger_subject_and_survives_pickling():
    error = errors.DataError("", "8-bit", "save it again").within("depth.png").within("nyu")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is errors.DataError
    assert copy.args == ("nyu: depth.png", "8-bit", "save it again")


def test_several_errors_become_one_that_names_everything_once():
    missing = [errors.InputError(name, "no such file") for name in ("a.jpg", "b.jpg")]
    error = errors.combine([*missing, errors.InputError("photos", "no pictures", "pass -r")])
    assert error.args == ("a.jpg, b.jpg, photos", "no such file; no pictures", "pass -r")
    many = errors.combine([errors.InputError(str(n), "no such file") for n in range(1121)])
    assert many.subject == "0, 1, 2 and 1,118 more"


def test_an_error_of_the_system_is_its_file_and_reason():
    assert errors.describe(OSError(28, "No space left", "a.npy")) == "a.npy: No space left"
    assert errors.describe(OSError(28, "No space left")) == "No space left"


def test_a_line_for_a_terminal_stays_one_line_from_left_to_right():
    hostile = "a\nb\x1b[31m\u2028\u202egnp.exe ü\udce9"
    assert errors.one_line(hostile) == "a\\nb\\x1b[31m\\u2028\\u202egnp.exe ü\udce9"


def test_the_text_of_another_library_is_cut_to_one_line():
    advice = "cannot read it. Try this, or that."
    assert errors.first_line(RuntimeError(f"\n{advice}\nand a page of more")) == "cannot read it"
    assert errors.first_line(ValueError()) == "ValueError"
    assert len(errors.first_line(ValueError("x" * 500))) == 160


@pytest.mark.parametrize("package", ["nosuchpackage", "nosuchpackage.part"])
def test_a_missing_package_is_named_with_the_extra_that_installs_it(package):
    errors.require("json", "json.decoder", extra="data")
    with refused(errors.MissingExtra, package, "idisc[data]"):
        errors.require(package, extra="data")


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("import nosuchneed", ModuleNotFoundError, "No module named 'nosuchneed'"),
        ("from json import nosuchname", ImportError, "cannot import name 'nosuchname'"),
        ("raise OSError('libmissing.so')", OSError, "libmissing.so"),
    ],
)
def test_a_package_whose_own_import_fails_is_not_reported_as_missing(
    tmp_path, monkeypatch, source, kind, message
):
    (tmp_path / "half_broken.py").write_text(source + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(kind, match=message):
        errors.require("half_broken", extra="train")
    with pytest.raises(ModuleNotFoundError, match=r"json\.nosuchpart"):
        errors.require("json.nosuchpart", extra="train")
