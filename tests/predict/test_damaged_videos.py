"""Videos that are cut short or broken end in the frames they have, or in one line."""

import numpy as np
import pytest
from tests.fakes.films import decoded, mux_silence, room, write_clip

from idisc.errors import InputError
from idisc.predict import video

av = pytest.importorskip("av", reason="PyAV (idisc[video]) is not installed")


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("cut.mp4", "libx264", {"movflags": "+faststart"}),
        ("cut.mkv", "libx264", {}),
        ("cut.avi", "mpeg4", {}),
        ("cut.webm", "libvpx-vp9", {}),
    ],
)
def test_a_file_that_is_cut_short_yields_the_frames_it_has(
    name, codec, options, predictor, tmp_path
):
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 255, (48, 64, 3)).astype(np.uint8) for _ in range(30)]
    clip = write_clip(tmp_path / name, noise, codec=codec, **options)
    assert video.predict_video(predictor, clip, tmp_path).notes == ()
    clip.write_bytes(clip.read_bytes()[: clip.stat().st_size * 6 // 10])
    outcome = video.predict_video(predictor, clip, tmp_path)
    assert 5 <= outcome.frames < 24
    assert len(decoded(outcome.files[0])) == outcome.frames
    (note,) = outcome.notes
    assert note.startswith(f"cut short or damaged: {outcome.seconds:.1f} of 3.0 s")


def broken(tmp_path, how):
    path = tmp_path / "broken.mp4"
    if how == "sound":
        with av.open(str(path), "w") as container:
            voice = container.add_stream("aac", rate=8000)
            mux_silence(container, voice)
        return path
    write_clip(path, [room()] * 10)
    content = path.read_bytes()
    contents = {
        "empty": b"",
        "text": b"not a video at all" * 40,
        "headless": content[: len(content) // 2],  # the index of an MP4 lies at its end
        "playlist": b"#EXTM3U\n#EXTINF:1,\nother.mp4\n",
        "hollow": content[: content.index(b"mdat") + 4]
        + bytes(content.index(b"moov") - content.index(b"mdat") - 8)
        + content[content.index(b"moov") - 4 :],
    }
    path.write_bytes(contents[how])
    return path


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("empty", "empty; get it again"),
        ("text", "not a video, damaged or cut short"),
        ("headless", "not a video, damaged or cut short"),
        ("playlist", "not a video, damaged or cut short"),
        ("sound", "no video stream"),
        ("hollow", "no frame can be decoded"),
    ],
)
def test_unreadable_videos_raise_an_error_of_one_line(how, message, predictor, tmp_path):
    path = broken(tmp_path, how)
    with pytest.raises(InputError) as caught:
        video.predict_video(predictor, path, tmp_path / "out")
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "out").glob("*"))


def test_mutated_videos_yield_frames_or_an_input_error(tmp_path):
    rng = np.random.default_rng(0)
    sound = write_clip(tmp_path / "fine.mp4", [room(seed) for seed in range(5)]).read_bytes()
    path = tmp_path / "mutated.mp4"
    ends = {"frames": 0, "error": 0}
    for _ in range(60):
        content = np.frombuffer(sound, np.uint8).copy()
        places = rng.integers(0, len(content), rng.integers(1, 40))
        content[places] = rng.integers(0, 256, len(places))
        path.write_bytes(content.tobytes())
        try:
            ends["frames"] += bool(list(video.Clip(path).frames()))
        except InputError:
            ends["error"] += 1
    assert min(ends.values()) > 0
    assert sum(ends.values()) == 60
