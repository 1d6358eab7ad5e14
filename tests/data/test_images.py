"""Images of every format are decoded correctly, and unusable files are refused with the reason."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.image_folders import noise
from helpers.text_table import rows
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image, ImageOps

from regard.common.errors import DataError
from regard.data.images import (
    ImageSizeSettings,
    as_image,
    as_images,
    load_pixels,
    source_pixels,
)

ORIGINAL_SIZE = ImageSizeSettings(height=0, width=0)


def pixels_of(source: Any) -> np.ndarray[Any, Any]:
    return load_pixels(source, ORIGINAL_SIZE)


@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.bmp", "a.jpg"])
def test_formats_give_the_same_pixels(tmp_path: Path, name: str) -> None:
    smooth = np.linspace(0, 255, 20 * 30 * 3).reshape(20, 30, 3).astype(np.uint8)
    path = tmp_path / name
    options = {"lossless": True} if name == "a.webp" else {}
    Image.fromarray(smooth).save(path, **options)
    whole = pixels_of(path)
    error = np.abs(whole.astype(int) - smooth).mean()

    assert error < 3 if name == "a.jpg" else error == 0

    content = path.read_bytes()
    assert_array_equal(pixels_of(content), whole)
    assert as_image(bytearray(content), "it") == content


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "a.png"
    noise().save(path, exif=exif)

    with Image.open(path) as image:
        upright = np.asarray(ImageOps.exif_transpose(image))
        assert_array_equal(pixels_of(image), upright)

    assert_array_equal(pixels_of(path), upright)


@pytest.mark.parametrize("mode", ["L", "P", "1"])
def test_grey_palette_and_black_and_white_become_rgb(mode: str) -> None:
    image = noise().convert(mode)
    assert_array_equal(pixels_of(image), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_is_blended_with_white(mode: str) -> None:
    image = noise().convert(mode)
    alpha = np.zeros((12, 20), np.uint8)
    alpha[6:] = 255
    image.putalpha(Image.fromarray(alpha))
    pixels = pixels_of(image)

    assert (pixels[:6] == 255).all()
    assert_array_equal(pixels[6:], np.asarray(image.convert("RGB"))[6:])

    palette = noise().convert("P")
    palette.info["transparency"] = palette.getpixel((0, 0))

    assert (pixels_of(palette)[0, 0] == 255).all()


def test_sixteen_bits_and_cmyk_become_eight_bits_of_rgb(tmp_path: Path) -> None:
    values = np.linspace(0, 65535, 240).reshape(12, 20).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")

    assert_allclose(pixels_of(tmp_path / "a.png")[..., 0], values / 257, atol=1)

    plain = Image.new("RGB", (16, 16), (250, 10, 10))
    plain.convert("CMYK").save(tmp_path / "a.jpg", quality=95)

    assert_allclose(pixels_of(tmp_path / "a.jpg")[8, 8], [250, 10, 10], atol=8)


@pytest.mark.parametrize("mode", ["RGBA", "P", "I;16", "F"])
def test_converting_strip_by_strip_is_converting_at_once(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = {"F": "f4", "I;16": "u2"}
    if mode in types:
        values = np.arange(240).reshape(12, 20) * 7
        image = Image.fromarray(values.astype(types[mode]))
    else:
        image = noise().convert(mode)

    if mode == "P":
        image.info["transparency"] = image.getpixel((0, 0))
    if mode == "RGBA":
        image.putalpha(noise(seed=2).convert("L"))

    assert image.mode == mode

    whole = pixels_of(image)
    assert whole.any()
    for pixels in (1, 45, 239):
        monkeypatch.setattr("regard.data.images._STRIP", pixels)
        assert_array_equal(pixels_of(image), whole)


def _png_header(width: int, height: int) -> bytes:
    """Return a PNG with a header that states this size, and hardly any data."""
    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [b"\x89PNG\r\n\x1a\n"]
    for kind, data in ((b"IHDR", size), (b"IDAT", zlib.compress(b"\0" * 99))):
        length = struct.pack(">I", len(data))
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        parts += [length, kind, data, checksum]

    return b"".join(parts)


def _write_sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _write_animation(path: Path, kind: str) -> None:
    noise().save(path, format=kind, save_all=True, append_images=[noise(seed=1)])


def _truncate(path: Path, kind: str, share: float) -> None:
    noise((40, 40)).save(path, format=kind)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


@pytest.mark.parametrize(
    ("make", "because"),
    [
        (lambda p: _truncate(p, "JPEG", 0.7), "a damaged JPEG image"),
        (
            lambda p: p.write_bytes(b"\xff\xd8\xff\xe0\0\x10JFIF"),
            "its header is broken",
        ),
        (
            lambda p: p.write_bytes(_png_header(30_000, 30_000)),
            "30,000 × 30,000 are 900,000,000",
        ),
        (
            lambda p: p.write_bytes(_png_header(1, 65_536)),
            "a side longer than the 65,535 pixels",
        ),
        (
            lambda p: _write_sparse(p, 900_000_000),
            "900,000,000 bytes, more than an image of",
        ),
        (
            lambda p: p.write_text("Not an image\nat all"),
            "text ('Not an image'), not a JPEG, PNG",
        ),
        (lambda p: p.write_bytes(b""), "the file is empty (0 bytes)"),
        (
            lambda p: p.write_bytes(b"\x01\x02\x03\x04" * 9),
            "begins with the bytes 01 02 03 04",
        ),
        (lambda p: p.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0"), "HEIC"),
        (lambda p: _write_animation(p, "GIF"), "an animated GIF of 2 frames"),
        (lambda p: p.mkdir(), "is a folder"),
        (lambda p: p.with_name("a.jpeg").touch(), "no such file; did you mean"),
    ],
)
def test_unusable_files_are_refused(tmp_path: Path, make: Any, because: str) -> None:
    path = tmp_path / "a.jpg"
    make(path)

    with pytest.raises(DataError) as refused:
        pixels_of(path)

    (cause,) = refused.value.causes
    assert cause.startswith(f"{path}: ")
    assert because in cause


def test_images_in_memory_are_refused_too(tmp_path: Path) -> None:
    _truncate(tmp_path / "b.jpg", "JPEG", 0.7)
    message = "the image: a damaged JPEG image"
    with (
        Image.open(tmp_path / "b.jpg") as image,
        pytest.raises(DataError, match=message),
    ):
        pixels_of(image)

    with pytest.raises(DataError, match="has no pixels"):
        pixels_of(Image.new("RGB", (0, 3)))

    image = tmp_path / "a.png"
    noise((20, 30)).save(image)
    allowed = ORIGINAL_SIZE.with_values(max_pixels=600)

    assert load_pixels(image, allowed).shape == (20, 30, 3)

    message = r"600 pixels, more than the 599 that data.images.max_pixels allows"
    with pytest.raises(DataError, match=message):
        load_pixels(image, ORIGINAL_SIZE.with_values(max_pixels=599))
    with pytest.raises(DataError, match=message):
        load_pixels(noise((20, 30)), ORIGINAL_SIZE.with_values(max_pixels=599))

    cropped = ORIGINAL_SIZE.with_values(height=160, width=160, fit="crop")
    message = "9,000 × 1 is so thin that it would be resized to 1,440,000 × 160 before"

    with pytest.raises(DataError, match=message):
        load_pixels(noise((1, 9000)), cropped)


@pytest.mark.parametrize(
    ("size", "fit", "max_side", "stored", "tensor"),
    rows("""
        10 10 | stretch | 0  | 10 10 | 10 10
        10 10 | crop    | 0  | 10 20 | 10 10
        10 10 | pad     | 0  | 5 10  | 5 10
        10 0  | stretch | 0  | 10 20 | 10 20
        0 10  | stretch | 0  | 5 10  | 5 10
        0 0   | stretch | 0  | 20 40 | 20 40
        0 0   | stretch | 8  | 4 8   | 4 8
        40 0  | stretch | 60 | 30 60 | 30 60
    """),
)
def test_images_are_resized_as_configured(
    size: str, fit: str, max_side: str, stored: str, tensor: str
) -> None:
    height, width = map(int, size.split())
    values = {"height": height, "width": width, "fit": fit, "cell": 4}
    if max_side != "0":
        values["max_side"] = int(max_side)
    settings = ImageSizeSettings.parse(values, "test")
    image = source_pixels(load_pixels(noise((20, 40)), settings), settings)

    assert image.pixels.shape == (*map(int, stored.split()), 3)

    Y, X = map(int, tensor.split())
    assert image.tensor().shape == (3, Y, X)
    assert image.grid == (-(-Y // 4), -(-X // 4))
    assert len(image) == image.grid[0] * image.grid[1]


def test_tensors_are_scaled_to_zero_to_one_and_crop_takes_the_centre() -> None:
    image = noise((20, 40))
    cropped = ImageSizeSettings(height=20, width=20, fit="crop")

    for settings, expected in (
        (ORIGINAL_SIZE, np.asarray(image)),
        (cropped, np.asarray(image)[:, 10:30]),
    ):
        tensor = source_pixels(load_pixels(image, settings), settings).tensor()
        assert tensor.dtype == torch.float32
        assert_allclose(tensor.permute(1, 2, 0) * 255, expected, atol=1e-4)

    blank = ImageSizeSettings(height=20, width=0, blank=True)
    pixels = load_pixels(noise((40, 30)), blank)

    assert pixels.shape == (20, 15, 3)
    assert np.unique(pixels).tolist() == [128]


# Images from other people's Python


def drawn(seed: int, *shape: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


GREY = drawn(1, 7, 9)
GREY_AS_RGB = np.repeat(GREY[..., None], 3, 2)
RGB = drawn(2, 7, 9, 3)
RGB[0, 0] = 0
RGB[1, 1] = 255
RGBA = drawn(3, 7, 9, 4)
THREE_ROWS = drawn(4, 3, 5, 3)
TENSOR = torch.from_numpy(RGB).permute(2, 0, 1)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (GREY, GREY_AS_RGB),
        (GREY[..., None], GREY_AS_RGB),
        (RGBA, RGBA[..., :3]),
        (RGB[::-1, ::2], RGB[::-1, ::2]),
        (THREE_ROWS, THREE_ROWS),
        (TENSOR, RGB),
        (torch.from_numpy(GREY)[None], GREY_AS_RGB),
    ],
)
def test_arrays_and_tensors_of_bytes_are_images(source: Any, expected: Any) -> None:
    image = as_image(source, "it")
    assert isinstance(image, Image.Image)
    assert_array_equal(np.asarray(image.convert("RGB")), expected)


@pytest.mark.parametrize(
    ("source", "because"),
    [
        (
            RGB / 255,
            r"an array \(float64\) of shape \(7, 9, 3\) with values from 0.* to 1; wanted"
            r".*multiply by 255 .*, \(image \* 255\)\.round\(\)\.astype\('uint8'\)",
        ),
        (TENSOR / 255, r"\(image \* 255\)\.round\(\)\.to\(torch\.uint8\)"),
        (RGB.astype(np.int64), r"convert to uint8, image\.astype\('uint8'\)"),
        (RGB / 128 - 1, r"values from -1 to .*: undo the normalisation"),
        (RGB.astype(np.uint16) * 257, "values from 0 to 65535; .*: scale them to 255"),
        (
            np.full((4, 4, 3), np.nan),
            "values from nan to nan; .*: replace what is not finite",
        ),
        (RGB > 9, r"truth values; wanted .*: image\.astype\('uint8'\) \* 255"),
        (
            RGB.transpose(2, 0, 1),
            r"wanted its channels last, .* array\.transpose\(1, 2, 0\)",
        ),
        (
            torch.from_numpy(RGB),
            r"wanted its channels first, .*: tensor\.permute\(2, 0, 1\)",
        ),
        (
            torch.zeros(3, 8, 3, dtype=torch.uint8),
            "channels could be the first axis or the last",
        ),
        (
            RGB[None],
            r"a batch of images; give them as a list of single ones: list\(images\)",
        ),
        (
            torch.zeros(5, 9, 9, dtype=torch.uint8),
            "wanted 1, 3 or 4 channels as its first axis",
        ),
        (
            RGB.ravel(),
            r"of shape \(189,\); wanted the pixels of an image, .*array\.tobytes\(\)",
        ),
        (RGB[:0], r"of shape \(0, 9, 3\), which has no pixels"),
        (io.BytesIO(b"x"), r"got <_io\.BytesIO .*; give its content: file\.read\(\)"),
        (
            None,
            "wanted a path, the bytes of an image file, an image of Pillow, or .*, got None",
        ),
        ([RGB, RGB], "got a list of 2; give all images in one flat list"),
        ("", "'' is no path"),
    ],
)
def test_other_objects_are_refused_with_how_to_convert_them(
    source: Any, because: str
) -> None:
    with pytest.raises(DataError, match=f"^it: .*{because}"):
        as_image(source, "it")


@pytest.mark.parametrize("image", [RGB, TENSOR, "a.png", b"x", None, {}, io.BytesIO()])
def test_one_image_is_told_from_several(image: Any) -> None:
    assert len(as_images(image)) == 1
    assert len(as_images([image, "a.png"])) == 2
    assert len(as_images(iter([image]))) == 1
    assert as_images([]) == []
