"""Pictures of every kind become upright RGB bytes; what cannot is one line that names the file."""

import io
import zlib

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image, features
from tests.fakes.refusals import refused

from idisc.camera import Lens
from idisc.errors import InputError, MissingExtra
from idisc.images import FORMATS, Photo, TooManyPixels, picture_size, read_image, read_photo

# How a camera that was held another way stores the upright picture: the inverse of its turn.
STORED = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
    **dict.fromkeys((0, 9, 300)),  # invalid
}


def colours(height=24, width=32):
    """Smooth, and unlike itself when turned or mirrored."""
    rows, columns = np.mgrid[:height, :width]
    red, green = rows * 255 // height, columns * 255 // width
    return np.stack([red, green, (red + 2 * green) // 3], axis=-1).astype(np.uint8)


def encoded(picture, kind, **options):
    stream = io.BytesIO()
    picture.save(stream, format=kind, **options)
    return stream.getvalue()


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize(("kind", "off"), [("PNG", 0), ("TIFF", 0), ("WEBP", 20), ("JPEG", 20)])
def test_all_eight_orientations_come_out_upright(orientation, kind, off):
    upright = Image.fromarray(colours())
    turn = STORED[orientation]
    stored = upright if turn is None else upright.transpose(turn)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    photo = read_photo(encoded(stored, kind, exif=exif))
    assert photo.size == (24, 32)
    assert np.abs(photo.image.astype(int) - colours()).max() <= off
    turned = turn is not None and kind != "TIFF"  # which Pillow turns by itself
    assert photo.notes == (("turned as EXIF says",) if turned else ())


def test_every_kind_of_source_gives_the_same_photo(tmp_path):
    image = colours()
    path = tmp_path / "room.png"
    Image.fromarray(image).save(path)
    tensor = torch.from_numpy(image)
    with path.open("rb") as file:
        photos = {
            "room.png": [path, str(path), Image.open(path), file],
            "bytes": [path.read_bytes(), bytearray(path.read_bytes())],
            "file": [io.BytesIO(path.read_bytes())],
            "picture": [Image.fromarray(image)],
            "array": [image, image.astype(np.int64), image / 255, image.transpose(2, 0, 1)],
            "tensor": [
                tensor,
                tensor.permute(2, 0, 1),
                tensor.permute(2, 0, 1) / 255,
                (tensor / 255).requires_grad_(),
                tensor.permute(2, 0, 1).double() / 255,
            ],
        }
        for name, sources in photos.items():
            for source in sources:
                photo = read_photo(source)
                np.testing.assert_array_equal(photo.image, image)
                assert (photo.name, photo.notes, photo.lens) == (name, (), Lens())
                assert photo.named == (name == "room.png")
    np.testing.assert_array_equal(read_image(path), image)
    named = read_photo(image, "kitchen")
    assert (named.name, named.named) == ("kitchen", True)
    photo = Photo(image, "mine")
    assert read_photo(photo) is photo
    for precision in (torch.bfloat16, torch.float16):
        read = read_photo((tensor.permute(2, 0, 1) / 255).to(precision)).image
        assert np.abs(read.astype(int) - image).max() <= 1


def test_16_bits_are_reduced_to_8_with_a_note():
    deep = (np.arange(24 * 32).reshape(24, 32) * 85).astype(np.uint16)  # 0 to 65195
    expected = np.rint(deep / 257).astype(np.uint8)
    for source in (encoded(Image.fromarray(deep), "PNG"), encoded(Image.fromarray(deep), "TIFF")):
        photo = read_photo(source)
        np.testing.assert_array_equal(photo.image, np.stack([expected] * 3, axis=-1))
        assert photo.notes == ("16-bit reduced to 8",)
    photo = read_photo(png_of_16_bit_rgb(colours().astype(np.uint16) * 257))  # Pillow reduces it
    np.testing.assert_array_equal(photo.image, colours())
    assert photo.notes == ("16-bit reduced to 8",)
    for array in (deep, deep[..., None], np.stack([deep] * 3, axis=-1), deep.astype(np.int32)):
        photo = read_photo(array)
        np.testing.assert_array_equal(photo.image[..., 1], expected)
        assert photo.notes == ("16-bit reduced to 8",)


GREY = colours()[..., 0]


@pytest.mark.parametrize(
    ("picture", "kind", "expected", "note"),
    [
        (Image.fromarray(colours()).convert("L"), "PNG", None, "grey turned into RGB"),
        (Image.fromarray(colours()).convert("1"), "PNG", None, "grey turned into RGB"),
        (Image.fromarray(colours()).convert("P"), "PNG", None, "palette turned into RGB"),
        (
            Image.fromarray(colours()).convert("CMYK"),
            "TIFF",
            None,
            "CMYK turned into RGB without its profile",
        ),
        (Image.fromarray(GREY.astype(np.int32)), "TIFF", GREY, "grey turned into RGB"),
        (Image.fromarray(GREY / np.float32(255)), "TIFF", GREY, "floats reduced to 8 bits"),
        (
            Image.fromarray(GREY.astype(np.float32)),
            "TIFF",
            GREY,
            "floats up to 255 taken as bytes",
        ),
    ],
    ids=["L", "1", "P", "CMYK", "I", "F to 1", "F to 255"],
)
def test_every_mode_is_converted_to_rgb_with_a_note(picture, kind, expected, note):
    photo = read_photo(encoded(picture, kind))
    if expected is None:
        expected = np.asarray(picture.convert("RGB"))[..., 1]
    np.testing.assert_array_equal(photo.image[..., 1], expected)
    assert photo.notes == (note,)


def png_of_16_bit_rgb(values):
    """Pillow reads but does not write them."""
    height, width = values.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)

    def chunk(name, data):
        check = zlib.crc32(name + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + name + data + check

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([16, 2, 0, 0, 0])
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_transparency_is_laid_on_white_with_a_note(kind):
    layered = np.dstack([colours(), np.full((24, 32), 255, np.uint8)])
    layered[:12, :, 3] = 0
    layered[12, :, 3] = 128
    options = {"lossless": True} if kind == "WEBP" else {}
    sources = [encoded(Image.fromarray(layered), kind, **options), layered, layered / 255]
    for source in sources:
        photo = read_photo(source)
        assert (photo.image[:12] == 255).all()
        np.testing.assert_array_equal(photo.image[13:], colours()[13:])
        mixed = colours()[12] * (128 / 255) + 127
        assert np.abs(photo.image[12] - mixed).max() <= 1
        assert photo.notes == ("transparency laid on white",)


def test_an_opaque_layer_is_no_transparency():
    layered = np.dstack([colours(), np.full((24, 32), 255, np.uint8)])
    for source in (encoded(Image.fromarray(layered), "PNG"), layered):
        photo = read_photo(source)
        np.testing.assert_array_equal(photo.image, colours())
        assert photo.notes == ()


def test_a_transparent_colour_of_a_palette_is_laid_on_white():
    picture = Image.fromarray(np.array([[0, 1], [1, 0]], np.uint8), mode=None).convert("P")
    picture.putpalette([10, 20, 30, 40, 50, 60])
    photo = read_photo(encoded(picture, "PNG", transparency=0))
    assert photo.notes == ("transparency laid on white",)
    assert (photo.image == 255).all(axis=-1).any()


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_the_first_of_several_frames_is_read_with_a_note(kind):
    frames = [Image.fromarray(np.full((16, 20, 3), shade, np.uint8)) for shade in (40, 120, 200)]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    photo = read_photo(data)
    assert (photo.image == 40).all()
    expected = "several pages, first one taken" if kind == "TIFF" else "animated, first frame taken"
    assert photo.notes[0] == expected


def test_a_phone_photo_with_a_preview_in_it_is_not_animated():
    picture = Image.fromarray(colours())
    data = encoded(picture, "MPO", save_all=True, append_images=[picture.resize((8, 6))])
    assert read_photo(data).notes == ()


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_that_is_offered_is_read(kind):
    if kind == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow was built without AVIF")
    data = encoded(Image.fromarray(colours(64, 64)), kind)
    assert np.abs(read_photo(data).image.astype(int) - colours(64, 64)).mean() < 12


def test_tiny_and_huge_pictures_are_read(monkeypatch):
    assert read_photo(encoded(Image.new("RGB", (1, 1)), "PNG")).size == (1, 1)
    assert read_photo(encoded(Image.new("RGB", (16, 16)), "JPEG")).size == (16, 16)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # of 90 million
    photo = read_photo(encoded(Image.new("L", (40, 30), 77), "PNG"))  # Pillow warns: errors here
    assert photo.size == (30, 40)
    assert photo.image[-1, -1].tolist() == [77, 77, 77]


def test_a_decompression_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "bomb.png"
    data = bytearray(encoded(Image.new("L", (8, 8)), "PNG"))
    data[16:24] = (50_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    path.write_bytes(data)
    for read in (read_photo, picture_size):
        with refused(TooManyPixels, path, "178 million"):
            read(path)


def test_unreadable_files_raise_an_error_that_names_them(tmp_path):
    whole = encoded(Image.fromarray(colours(200, 200)), "JPEG")
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("a picture of a room")
    (tmp_path / "script.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    (tmp_path / "photos.jpg").mkdir()
    expected = {
        "cut.jpg": "cut short",
        "empty.jpg": "empty",
        "notes.txt": "not a picture",
        "script.eps": "not a picture",
        "photos.jpg": "a folder",
        "missing.jpg": "no such file",
        "nul\0.jpg": "no such file",
    }
    for name, reason in expected.items():
        for read in (read_photo, picture_size):
            if (read, name) == (picture_size, "cut.jpg"):
                continue  # its header is whole
            with refused(InputError, tmp_path / name, reason):
                read(tmp_path / name)


@pytest.mark.parametrize(
    ("source", "subject", "fact"),
    [
        (b"", "bytes", "empty"),
        (b"hello", "bytes", ""),
        (io.StringIO("hello"), "file", "'rb'"),
        (None, "NoneType", "predict_many"),
        (3.0, "float", ""),
        (np.zeros((6, 5, 2), np.uint8), "array", "(6, 5, 2)"),
        (np.zeros((0, 5, 3), np.uint8), "array", "(0, 5, 3)"),
        (np.zeros((2, 4, 5, 3), np.uint8), "array", "as a list"),
        (np.full((4, 5), np.nan), "array", "nan to nan"),
        (np.full((4, 5), -1.0), "array", "-1 to -1"),
        (np.full((4, 5), 300.0), "array", "300 to 300"),
        (np.full((4, 5), -1), "array", "-1 to -1"),
        (np.full((4, 5), 1j), "array", "complex128"),
        (torch.zeros(2, 3, 4, 5), "tensor", "(2, 3, 4, 5)"),
    ],
)
def test_values_that_are_no_picture_are_refused(source, subject, fact):
    with refused(InputError, subject, fact):
        read_photo(source)


def test_heif_needs_its_reader(tmp_path):
    path = tmp_path / "phone.heic"
    path.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 64)
    try:
        import pillow_heif
    except ModuleNotFoundError:
        for read in (read_photo, picture_size):
            with refused(MissingExtra, f"{path}: pillow_heif", "idisc[heif]"):
                read(path)
    else:
        with refused(InputError, path):
            read_photo(path)
        pillow_heif.register_heif_opener()
        data = encoded(Image.fromarray(colours(64, 64)), "HEIF", quality=95)
        assert np.abs(read_photo(data).image.astype(int) - colours(64, 64)).mean() < 12


def with_exif(entries, size=(24, 32)):
    exif = Image.Exif()
    exif.get_ifd(ExifTags.IFD.Exif).update(entries)
    return encoded(Image.fromarray(colours(*size)), "JPEG", exif=exif)


def test_the_lens_is_read_from_exif():
    tag = ExifTags.Base
    photo = read_photo(
        with_exif(
            {
                tag.FocalLength: 4.25,
                tag.FocalLengthIn35mmFilm: 26,
                tag.FocalPlaneXResolution: 2540.0,
                tag.FocalPlaneResolutionUnit: 2,
                tag.ExifImageWidth: 4000,
                tag.ExifImageHeight: 3000,
            }
        )
    )
    expected = Lens(focal_35mm=26, focal_mm=4.25, pixels_per_mm=100, taken_size=(3000, 4000))
    assert photo.lens == expected


@pytest.mark.parametrize(("unit", "per_mm"), [(2, 10.0), (3, 25.4), (4, 254.0), (9, None)])
def test_the_pitch_of_a_sensor_has_units(unit, per_mm):
    tag = ExifTags.Base
    entries = {tag.FocalPlaneXResolution: 254.0, tag.FocalPlaneResolutionUnit: unit}
    assert read_photo(with_exif(entries)).lens.pixels_per_mm == (per_mm and pytest.approx(per_mm))


def test_a_focal_length_of_0_is_unknown():
    tag = ExifTags.Base
    assert read_photo(with_exif({tag.FocalLengthIn35mmFilm: 0, tag.FocalLength: 0})).lens == Lens()


def test_a_picture_with_damaged_exif_is_read_without_a_camera():
    data = with_exif({ExifTags.Base.FocalLengthIn35mmFilm: 26})
    start = data.index(b"Exif\0\0") + 10
    photo = read_photo(data[:start] + b"\xff" * 30 + data[start + 30 :])
    assert photo.size == (24, 32)
    assert photo.lens == Lens()
