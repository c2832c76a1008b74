"""What a network inherits from its data and from the weights it started from."""

import json
from dataclasses import replace

import pytest
from tests.fakes.refusals import refused

from idisc.ancestry import Ancestry, Parent, join, read_ancestry
from idisc.errors import CheckpointError

PARENT = Ancestry(
    domain="road",
    depth_range=(0.5, 80.0),
    training_size=(192, 640),
    training_fov_deg=80.0,
    canonical=True,
    data=("KITTI",),
    licence=("CC BY-NC 4.0",),
    non_commercial=True,
    parents=(Parent(name="kitti.pt", sha256="ab"),),
)
OWN = Ancestry(
    domain="any", training_size=(192, 640), data=("own",), licence=("data of own: yours",)
)


def test_a_child_of_non_commercial_weights_is_non_commercial_and_keeps_what_it_does_not_know():
    child = join([PARENT.as_parent("kitti", "cd"), OWN])
    assert child.non_commercial
    assert child.licence == ("CC BY-NC 4.0", "data of own: yours")
    assert child.data == ("KITTI", "own")
    assert (child.domain, child.depth_range) == ("road", (0.5, 80.0))
    assert (child.training_fov_deg, child.canonical) == (80.0, True)
    assert child.parents == (
        Parent(name="kitti", sha256="cd"),
        Parent(name="kitti.pt", sha256="ab"),
    )
    again = join([child.as_parent("child", "ef"), OWN])
    assert (again.licence, again.data) == (child.licence, child.data)  # each once
    assert [each.name for each in again.parents] == ["child", "kitti", "kitti.pt"]


def test_what_the_parts_know_is_joined():
    rooms = Ancestry(
        domain="indoor", depth_range=(0.01, 10.0), training_size=(480, 640), training_fov_deg=60.0
    )
    both = join([PARENT, rooms])
    assert (both.domain, both.depth_range) == ("any", (0.01, 80.0))
    assert (both.training_size, both.training_fov_deg) == ((480, 640), 60.0)
    assert not both.canonical
    assert join([Ancestry(), Ancestry()]) == Ancestry()


def test_an_inherited_camera_keeps_its_focal_length_at_another_aspect_ratio():
    before = PARENT.training_camera
    after = join([PARENT, Ancestry(training_size=(240, 320))]).training_camera
    assert before
    assert after
    assert after.fx / (240 * 320) ** 0.5 == pytest.approx(before.fx / (192 * 640) ** 0.5, rel=1e-3)


def test_a_parent_of_unknown_licence_is_named():
    assert join([Ancestry().as_parent("found.pt", ""), OWN]).licence == (
        "found.pt: unknown",
        "data of own: yours",
    )


def test_fields_survive_json_and_the_texts_of_onnx():
    known = replace(PARENT, depth_range=(1e-5, 80.0))
    values = known.to_json()
    assert read_ancestry(json.loads(json.dumps(values)), "it") == known
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
    }
    assert read_ancestry(texts, "it") == known
    assert read_ancestry({"licence": "[free] to use"}, "it").licence == ("[free] to use",)


@pytest.mark.parametrize("parents", ["[1]", "kitti.pt", [{"sha256": "ab"}]])
def test_parents_without_names_are_refused(parents):
    with refused(CheckpointError, "it", "parents"):
        read_ancestry({"parents": parents}, "it")


@pytest.mark.parametrize(
    ("record", "excluded"),
    [
        ({"licence": "CC BY-NC 4.0"}, True),  # as written by 0.1
        ({"licence": ["Apache-2.0", "CC BY-NC-SA 3.0"]}, True),
        ({"licence": "Apache-2.0"}, False),
        ({"licence": "for NCSA"}, False),
        ({"licence": "CC BY-NC 4.0", "non_commercial": False}, False),
    ],
)
def test_a_record_without_the_flag_is_judged_by_its_licence(record, excluded):
    assert read_ancestry(record, "network").non_commercial is excluded
