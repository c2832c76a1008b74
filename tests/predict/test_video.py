"""Videos: a few frames at a time, one range of colours, flicker that smoothing lowers."""

import json
import sys
import warnings
import weakref
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image
from tests.fakes.films import JUMP, Flickering, decoded, room, write_clip
from tests.fakes.refusals import refused

from idisc import formats, visualize
from idisc.camera import Camera
from idisc.errors import CheckpointError, IdiscWarning, InputError, MissingExtra
from idisc.formats import FormatOptions
from idisc.images import Photo
from idisc.predict import video
from idisc.predict.options import PredictOptions
from idisc.predict.predictor import Predictor

av = pytest.importorskip("av", reason="PyAV (idisc[video]) is not installed")


@pytest.fixture
def still(tmp_path):
    """Two seconds of one room."""
    return write_clip(tmp_path / "still.mp4", [room()] * 20)


def record_of(path):
    return json.loads(path.read_text())


def test_the_mp4_file_has_the_frames_and_the_size_of_the_clip(still, predictor, tmp_path):
    progress = []
    outcome = video.predict_video(
        predictor, still, tmp_path / "out", advance=lambda *done: progress.append(done)
    )
    assert progress == [(done, 20) for done in range(1, 21)]
    assert [path.name for path in outcome.files] == ["still_depth.mp4", "still_depth.json"]
    shown = decoded(outcome.files[0])
    assert [picture.shape for picture in shown] == [(48, 64, 3)] * 20
    assert (outcome.frames, outcome.notes, outcome.cuts) == (20, (), ())
    assert outcome.seconds == pytest.approx(2.0, abs=0.01)
    assert set((tmp_path / "out").iterdir()) == set(outcome.files)
    with av.open(str(outcome.files[0])) as container:
        times = [frame.time for frame in container.decode(video=0)]
        assert "model: flickering" in container.metadata["comment"]
    assert np.diff(times) == pytest.approx(np.full(19, 0.1), abs=1e-4)


def test_colours_mean_the_same_metres_in_every_frame(predictor, tmp_path):
    """Each frame has one depth; the n-th is coloured by the range of all of them."""
    shades = [0, 40, 80, 120, 160, 200, 240]
    flat = [np.full((48, 64, 3), shade, np.uint8) for shade in shades]
    clip = write_clip(tmp_path / "flat.mkv", flat)
    steady = Predictor(Flickering(0))
    outcome = video.predict_video(steady, clip, tmp_path)
    assert outcome.limits is not None
    low, high = outcome.limits
    assert (low, high) == pytest.approx((2.0, 3.6), abs=0.1)  # five frames spread over the clip
    for shade, picture in zip(shades, decoded(outcome.files[0]), strict=True):
        colour = visualize.colourise(np.array([[2 + shade / 100]]), low, high)[0, 0]
        assert np.abs(picture.mean(axis=(0, 1)) - colour).max() < 8  # 8-bit YUV on both ways
    given = video.Plan(options=FormatOptions(limits=(1.0, 9.0)))
    assert video.predict_video(steady, clip, tmp_path, given).limits == (1.0, 9.0)


def test_flicker_is_measured_and_smoothing_lowers_it(still, predictor, tmp_path):
    plain = video.predict_video(predictor, still, tmp_path)
    assert plain.flicker == pytest.approx(JUMP, rel=0.02)
    assert plain.smoothed is None
    smooth = video.predict_video(predictor, still, tmp_path, video.Plan(smooth=0.5))
    assert smooth.flicker == pytest.approx(JUMP, rel=0.02)
    # Each frame moves by w (l - s), and s settles so that it jumps by w / (2 - w) of the whole.
    weight = 1 - np.exp(-0.1 / 0.5)
    assert smooth.smoothed == pytest.approx(JUMP * weight / (2 - weight), rel=0.25)
    said = record_of(tmp_path / "still_depth.json")
    assert (said["flicker"], said["smoothed"]) == (smooth.flicker, smooth.smoothed)
    assert said["provenance"]["smoothing_s"] == 0.5


class Counting(Predictor):
    """Keeps weak references to all pictures and depths, and how many were alive at most."""

    def __init__(self):
        super().__init__(Flickering())
        self.seen = []
        self.most = 0

    def predict(self, source, *options, **changes):
        found = super().predict(source, *options, **changes)
        self.seen += [weakref.ref(source.image), weakref.ref(found.depth)]
        self.most = max(self.most, sum(each() is not None for each in self.seen))
        return found


def test_memory_does_not_grow_with_the_length_of_a_clip(tmp_path):
    clip = write_clip(tmp_path / "long.mp4", [room(size=(32, 32))] * 60)
    counting = Counting()
    plan = video.Plan(formats=formats.parse("png,npz"), side_by_side=True, smooth=0.3)
    assert video.predict_video(counting, clip, tmp_path, plan).frames == 60
    assert len(counting.seen) == 2 * (60 + video.SAMPLES)
    assert counting.most <= 8


TURNS = {  # a, b, c, d of the display matrix -> what makes the picture upright
    (1, 0, 0, 1): lambda image: image,
    (0, 1, -1, 0): lambda image: np.rot90(image, -1),
    (-1, 0, 0, -1): lambda image: np.rot90(image, 2),
    (0, -1, 1, 0): lambda image: np.rot90(image, 1),
    (-1, 0, 0, 1): lambda image: image[:, ::-1],
    (0, 1, 1, 0): lambda image: image.transpose(1, 0, 2),
}


@pytest.mark.parametrize("turn", TURNS)
def test_frames_are_upright(turn, tmp_path):
    picture = np.zeros((48, 64, 3), np.uint8)
    picture[:16, :16] = 250  # upper left
    picture[:16, -16:] = 120
    clip = write_clip(tmp_path / "turned.mp4", [picture] * 3)
    content = bytearray(clip.read_bytes())
    place = content.index(b"tkhd") + 4 + 40  # of the nine numbers of its matrix; version 0
    a, b, c, d = turn
    matrix = np.array([a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30], ">i4")
    content[place : place + 36] = matrix.tobytes()
    clip.write_bytes(content)
    frames = list(video.Clip(clip).frames())
    expected = TURNS[turn](picture).astype(int)
    assert len(frames) == 3
    for frame in frames:
        assert frame.image.shape == expected.shape
        assert np.abs(frame.image - expected).mean() < 6
    outcome = video.predict_video(Predictor(Flickering()), clip, tmp_path)
    assert decoded(outcome.files[0])[0].shape == expected.shape


def test_pixels_that_are_not_square_are_shown_square(tmp_path):
    path = tmp_path / "wide.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(3, 2)
        container.mux(stream.encode(av.VideoFrame.from_ndarray(room(), format="rgb24")))
        container.mux(stream.encode(None))
    assert next(video.Clip(path).frames()).image.shape == (48, 96, 3)


def test_side_by_side_has_picture_depth_and_legend(still, predictor, tmp_path):
    outcome = video.predict_video(predictor, still, tmp_path, video.Plan(side_by_side=True))
    assert [path.name for path in outcome.files] == ["still_beside.mp4", "still_beside.json"]
    shown = decoded(outcome.files[0])
    assert len(shown) == 20
    height, width = shown[0].shape[:2]
    assert width >= 2 * 320
    assert height > 240
    left = Image.fromarray(shown[3]).crop((0, height - 300, 320, height - 60))
    assert np.std(np.asarray(left)) > 10
    assert (shown[3][-4:, :10] > 240).all()  # the paper of the legend


@pytest.mark.parametrize("size", [(47, 63), (16, 400)])
def test_odd_sizes_are_padded(size, predictor, tmp_path):
    clip = write_clip(tmp_path / "odd.mkv", [room(size=size)] * 2, codec="ffv1")
    outcome = video.predict_video(predictor, clip, tmp_path)
    even = tuple(side + side % 2 for side in size)
    assert decoded(outcome.files[0])[0].shape[:2] == even


def test_frame_folders_hold_metres(still, tmp_path):
    plan = video.Plan(formats=formats.parse("png16,npz"), every=4)
    outcome = video.predict_video(Predictor(Flickering(0)), still, tmp_path, plan)
    assert [path.name for path in outcome.files] == ["still_png16", "still_npz"]
    assert (outcome.frames, outcome.limits) == (5, None)
    names = [f"{index:06}" for index in (0, 4, 8, 12, 16)]
    folder = tmp_path / "still_png16"
    assert sorted(path.name for path in folder.iterdir()) == [
        *(f"{name}.png" for name in names),
        "clip.json",
    ]
    said = record_of(folder / "clip.json")
    assert (said["metres_per_unit"], said["every"], said["clip"]) == (0.001, 4, "still.mp4")
    assert said["camera"]["origin"] == "assumed 60 deg"
    with (
        Image.open(folder / "000004.png") as picture,
        np.load(tmp_path / "still_npz" / "000004.npz") as arrays,
    ):
        unit = float(picture.info["metres_per_unit"])
        np.testing.assert_allclose(np.asarray(picture) * unit, arrays["depth"], atol=0.0006)
        assert json.loads(str(arrays["record"]))["provenance"]["frame"] == {
            "index": 4,
            "seconds": pytest.approx(0.4),
        }


def test_depth_beyond_16_bits_is_stored_as_none(still, tmp_path):
    plan = video.Plan(formats=formats.parse("png16"), options=FormatOptions(metres_per_unit=5e-5))
    video.predict_video(Predictor(Flickering(0)), still, tmp_path, plan)
    with Image.open(tmp_path / "still_png16" / "000000.png") as picture:
        assert (np.asarray(picture) == 0).any()
        assert json.loads(picture.info["idisc"])["empty_beyond_m"] == pytest.approx(3.27675)


def test_frames_keep_their_times_unless_a_rate_is_given(still, predictor, tmp_path):
    for fps, step in ((None, 0.5), (4.0, 0.25)):
        plan = video.Plan(every=5, fps=fps)
        outcome = video.predict_video(predictor, still, tmp_path, plan)
        with av.open(str(outcome.files[0])) as container:
            times = [frame.time for frame in container.decode(video=0)]
        assert times == pytest.approx([0, step, 2 * step, 3 * step], abs=1e-3)


def test_a_known_distance_of_the_first_frame_scales_all(still, tmp_path):
    predictor = Predictor(Flickering(0))
    known = ((4, 4), (60, 40), 10.0)
    plain = video.predict_video(predictor, still, tmp_path)
    options = PredictOptions(known_distance=known)
    scaled = video.predict_video(predictor, still, tmp_path, options=options)
    assert plain.limits is not None
    assert scaled.limits is not None
    first = predictor.predict(Photo(next(video.Clip(still).frames()).image, "still.mp4"))
    factor = 10.0 / first.measure((4, 4), (60, 40))
    assert scaled.limits == pytest.approx([factor * limit for limit in plain.limits], rel=1e-4)
    (rescaling,) = scaled.last.provenance.rescalings
    assert (rescaling.first_frame, rescaling.known[0].metres) == (True, 10.0)
    outside = PredictOptions(known_distance=((4, 4), (900, 4), 1.0))
    with refused(InputError, f"{still}: point 900,4"):
        video.predict_video(predictor, still, tmp_path, options=outside)


def test_a_known_distance_replaces_a_warning(still, tmp_path):
    engine = Flickering(0)
    engine.origin = {**Flickering.origin, "training_fov_deg": 60.0}
    options = PredictOptions(camera=Camera.from_fov(20, (48, 64)), camera_correction=False)
    known = ((4, 4), (60, 40), 10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = video.predict_video(
            Predictor(engine), still, tmp_path, options=replace(options, known_distance=known)
        )
    assert scaled.last.provenance.warnings == ()
    with pytest.warns(IdiscWarning):
        outcome = video.predict_video(Predictor(engine), still, tmp_path, options=options)
    assert [each.code for each in outcome.last.provenance.warnings] == ["field_of_view"]


def test_sound_is_left_out_with_a_note(predictor, tmp_path):
    clip = write_clip(tmp_path / "loud.mp4", [room()] * 10, sound=True)
    outcome = video.predict_video(predictor, clip, tmp_path)
    assert outcome.notes == ("sound left out",)
    with av.open(str(outcome.files[0])) as container:
        assert not container.streams.audio


def test_a_failure_leaves_no_files(still, tmp_path):
    class Failing(Flickering):
        def run(self, images, size=None):
            if self.calls > 12:
                raise CheckpointError("network", "gave up")
            return super().run(images, size)

    out = tmp_path / "out"
    plan = video.Plan(formats=formats.parse("png,png16"))
    with refused(CheckpointError, "network"):
        video.predict_video(Predictor(Failing()), still, out, plan)
    assert list(out.iterdir()) == []


def test_invalid_plans_are_refused(still, tmp_path):
    wrong = [{"formats": formats.parse("ply")}, {"every": 0}, {"smooth": -1.0}, {"fps": 0.0}]
    for changes in wrong:
        with pytest.raises(InputError):
            video.Plan(**changes)
    normals = PredictOptions(normals=True)
    with refused(InputError, still, "normals"):
        video.predict_video(Predictor(Flickering()), still, tmp_path, options=normals)


def test_a_clip_predicted_again_replaces_its_frames(still, tmp_path):
    plan = video.Plan(formats=formats.parse("npz"))
    for _ in range(2):
        video.predict_video(Predictor(Flickering()), still, tmp_path, plan)
    every = list((tmp_path / "still_npz").iterdir())
    sparse = video.Plan(formats=formats.parse("npz"), every=2)
    video.predict_video(Predictor(Flickering()), still, tmp_path, sparse)
    assert 1 < len(list((tmp_path / "still_npz").iterdir())) < len(every)
    assert {path.name for path in tmp_path.iterdir()} == {"still.mp4", "still_npz"}  # no leftovers
    (tmp_path / "still_npz" / "mine.txt").write_text("precious")
    engine = Flickering()
    with refused(InputError, tmp_path / "still_npz"):
        video.predict_video(Predictor(engine), still, tmp_path, plan)
    assert engine.calls == 0
    assert (tmp_path / "still_npz" / "mine.txt").read_text() == "precious"


def test_without_pyav_the_extra_is_named(still, predictor, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with refused(MissingExtra, f"{still}: av", "idisc[video]"):
        video.predict_video(predictor, still, tmp_path)
