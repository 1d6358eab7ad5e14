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
from albums import noise
from PIL import Image, ImageOps

from regard.common.errors import DataError
from regard.data.images import ImageSizeSettings, as_image, as_images, load_pixels, source_pixels

ORIGINAL_SIZE = ImageSizeSettings(height=0, width=0)


def test_lossless_formats_give_the_same_pixels(tmp_path: Path) -> None:
    image = noise()
    for name, options in (("a.png", {}), ("a.webp", {"lossless": True}), ("a.bmp", {})):
        image.save(tmp_path / name, **options)
        np.testing.assert_array_equal(
            load_pixels(tmp_path / name, ORIGINAL_SIZE), np.asarray(image)
        )
    image.save(tmp_path / "named.jpg", format="PNG")
    np.testing.assert_array_equal(
        load_pixels(tmp_path / "named.jpg", ORIGINAL_SIZE), np.asarray(image)
    )


def test_a_jpeg_is_nearly_the_same_image(tmp_path: Path) -> None:
    smooth = Image.fromarray(np.linspace(0, 255, 20 * 30 * 3).reshape(20, 30, 3).astype(np.uint8))
    smooth.save(tmp_path / "a.jpg", quality=95)
    assert (
        np.abs(
            load_pixels(tmp_path / "a.jpg", ORIGINAL_SIZE).astype(int) - np.asarray(smooth)
        ).mean()
        < 3
    )


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    noise().save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as image:
        upright = np.asarray(ImageOps.exif_transpose(image))
    np.testing.assert_array_equal(load_pixels(tmp_path / "a.png", ORIGINAL_SIZE), upright)


def test_pillow_images_are_loaded(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    noise().save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as image:
        np.testing.assert_array_equal(
            load_pixels(image, ORIGINAL_SIZE), load_pixels(tmp_path / "a.png", ORIGINAL_SIZE)
        )
    np.testing.assert_array_equal(
        load_pixels((tmp_path / "a.png").read_bytes(), ORIGINAL_SIZE),
        load_pixels(tmp_path / "a.png", ORIGINAL_SIZE),
    )
    _truncate(tmp_path / "b.jpg", "JPEG", 0.7)
    with (
        Image.open(tmp_path / "b.jpg") as image,
        pytest.raises(DataError, match="the image: a damaged JPEG image"),
    ):
        load_pixels(image, ORIGINAL_SIZE)
    with pytest.raises(DataError, match="has no pixels"):
        load_pixels(Image.new("RGB", (0, 3)), ORIGINAL_SIZE)


def test_grey_palette_and_black_and_white_become_rgb(tmp_path: Path) -> None:
    for mode in ("L", "P", "1"):
        image = noise().convert(mode)
        image.save(tmp_path / "a.png")
        np.testing.assert_array_equal(
            load_pixels(tmp_path / "a.png", ORIGINAL_SIZE), np.asarray(image.convert("RGB"))
        )


def test_transparency_is_blended_with_white(tmp_path: Path) -> None:
    for mode in ("RGBA", "LA"):
        image = noise().convert(mode)
        image.putalpha(
            Image.fromarray(
                np.repeat(np.array([[0], [255]], dtype=np.uint8), [6, 6], 0).repeat(20, 1)
            )
        )
        image.save(tmp_path / "a.png")
        pixels = load_pixels(tmp_path / "a.png", ORIGINAL_SIZE)
        assert (pixels[:6] == 255).all()
        np.testing.assert_array_equal(pixels[6:], np.asarray(image.convert("RGB"))[6:])
    palette = noise().convert("P")
    palette.save(tmp_path / "p.png", transparency=palette.getpixel((0, 0)))
    assert (load_pixels(tmp_path / "p.png", ORIGINAL_SIZE)[0, 0] == 255).all()


def test_sixteen_bits_become_eight(tmp_path: Path) -> None:
    values = np.linspace(0, 65535, 240).reshape(12, 20).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    np.testing.assert_allclose(
        load_pixels(tmp_path / "a.png", ORIGINAL_SIZE)[..., 0], values / 257, atol=1
    )


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "I;16", "I", "F"])
def test_converting_strip_by_strip_is_converting_at_once(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode in ("I;16", "I", "F"):
        image = Image.fromarray(
            (np.arange(240).reshape(12, 20) * 7).astype({"F": "f4", "I": "i4"}.get(mode, "u2"))
        )
    else:
        image = noise().convert(mode)
        if mode == "P":
            image.info["transparency"] = image.getpixel((0, 0))
        else:
            image.putalpha(noise(seed=2).convert("L"))
    assert image.mode == mode
    whole = load_pixels(image, ORIGINAL_SIZE)
    for pixels in (1, 45, 239):
        monkeypatch.setattr("regard.data.images._STRIP", pixels)
        np.testing.assert_array_equal(load_pixels(image, ORIGINAL_SIZE), whole)
    assert whole.any()


def test_cmyk_becomes_rgb(tmp_path: Path) -> None:
    plain = Image.new("RGB", (16, 16), (250, 10, 10))
    plain.convert("CMYK").save(tmp_path / "a.jpg", quality=95)
    np.testing.assert_allclose(
        load_pixels(tmp_path / "a.jpg", ORIGINAL_SIZE)[8, 8], [250, 10, 10], atol=8
    )


def _png_header(width: int, height: int) -> bytes:
    """Return a PNG with a header that states this size, and hardly any data."""
    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", size), (b"IDAT", zlib.compress(b"\0" * 99))]
    parts = [
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _write_sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _write_animation(path: Path, kind: str) -> None:
    noise().save(path, format=kind, save_all=True, append_images=[noise(seed=1)])


def _truncate(path: Path, kind: str, share: float) -> None:
    noise((40, 40)).save(path, format=kind)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


BAD = {
    "truncated JPEG": (lambda p: _truncate(p, "JPEG", 0.7), "a damaged JPEG image"),
    "truncated PNG": (lambda p: _truncate(p, "PNG", 0.7), "a damaged PNG image"),
    "truncated WebP": (lambda p: _truncate(p, "WEBP", 0.7), "a damaged WebP image"),
    "a JPEG's first bytes": (
        lambda p: p.write_bytes(b"\xff\xd8\xff\xe0\0\x10JFIF"),
        "its header is broken",
    ),
    "bomb": (
        lambda p: p.write_bytes(_png_header(30_000, 30_000)),
        "30,000 × 30,000 are 900,000,000 pixels",
    ),
    "stripe": (
        lambda p: p.write_bytes(_png_header(1, 65_536)),
        "1 × 65,536, a side longer than the 65,535 pixels",
    ),
    "gigabytes": (
        lambda p: _write_sparse(p, 900_000_000),
        "900,000,000 bytes, more than an image of 50,000,000",
    ),
    "text": (
        lambda p: p.write_text("Not an image\nat all"),
        "text ('Not an image'), not a JPEG, PNG or WebP",
    ),
    "nothing": (lambda p: p.write_bytes(b""), "the file is empty (0 bytes)"),
    "noise": (
        lambda p: p.write_bytes(b"\x01\x02\x03\x04" * 9),
        "begins with the bytes 01 02 03 04",
    ),
    "PDF": (lambda p: p.write_bytes(b"%PDF-1.7 ."), "a PDF document"),
    "HEIC": (lambda p: p.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0"), "HEIC"),
    "animated GIF": (lambda p: _write_animation(p, "GIF"), "an animated GIF of 2 frames"),
    "animated PNG": (lambda p: _write_animation(p, "PNG"), "an animated PNG of 2 frames"),
    "animated WebP": (lambda p: _write_animation(p, "WEBP"), "an animated WebP of 2 frames"),
    "folder": (lambda p: p.mkdir(), "is a folder"),
    "not there": (lambda p: p.with_name("a.jpeg").touch(), "no such file; did you mean"),
}


@pytest.mark.parametrize("name", BAD)
def test_unusable_files_are_refused(tmp_path: Path, name: str) -> None:
    make, because = BAD[name]
    make(tmp_path / "a.jpg")
    with pytest.raises(DataError) as refused:
        load_pixels(tmp_path / "a.jpg", ORIGINAL_SIZE)
    (cause,) = refused.value.causes
    assert cause.startswith(f"{tmp_path / 'a.jpg'}: ")
    assert because in cause


def test_too_many_pixels_are_refused(tmp_path: Path) -> None:
    noise((20, 30)).save(tmp_path / "a.png")
    assert load_pixels(tmp_path / "a.png", ORIGINAL_SIZE.with_values(max_pixels=600)).shape == (
        20,
        30,
        3,
    )
    with pytest.raises(
        DataError, match=r"600 pixels, more than the 599 that data.images.max_pixels allows"
    ):
        load_pixels(tmp_path / "a.png", ORIGINAL_SIZE.with_values(max_pixels=599))
    noise((1, 9000)).save(tmp_path / "thin.png")
    size_settings = ORIGINAL_SIZE.with_values(height=160, width=160, fit="crop")
    with pytest.raises(
        DataError, match="9,000 × 1 is so thin that it would be resized to 1,440,000 × 160 before"
    ):
        load_pixels(tmp_path / "thin.png", size_settings)


@pytest.mark.parametrize(
    ("settings", "stored_size", "tensor_size"),
    [
        ({"height": 10, "width": 10}, (10, 10), (10, 10)),
        ({"height": 10, "width": 10, "fit": "crop"}, (10, 20), (10, 10)),
        ({"height": 10, "width": 10, "fit": "pad"}, (5, 10), (5, 10)),
        ({"height": 10, "width": 0}, (10, 20), (10, 20)),
        ({"height": 0, "width": 10}, (5, 10), (5, 10)),
        ({"height": 0, "width": 0}, (20, 40), (20, 40)),
        ({"height": 0, "width": 0, "max_side": 8}, (4, 8), (4, 8)),
        ({"height": 40, "width": 0, "max_side": 60}, (30, 60), (30, 60)),
    ],
)
def test_images_are_resized_as_configured(
    settings: dict[str, object], stored_size: tuple[int, int], tensor_size: tuple[int, int]
) -> None:
    size_settings = ImageSizeSettings.parse({**settings, "cell": 4}, "test")
    image = source_pixels(load_pixels(noise((20, 40)), size_settings), size_settings)
    assert image.pixels.shape == (*stored_size, 3)
    assert image.tensor().shape == (3, *tensor_size)
    assert image.grid == (-(-tensor_size[0] // 4), -(-tensor_size[1] // 4))
    assert len(image) == image.grid[0] * image.grid[1]


def test_tensors_are_scaled_to_zero_to_one() -> None:
    image = noise()
    tensor = source_pixels(load_pixels(image, ORIGINAL_SIZE), ORIGINAL_SIZE).tensor()
    assert tensor.dtype == torch.float32
    np.testing.assert_allclose(tensor.permute(1, 2, 0) * 255, np.asarray(image), atol=1e-4)


def test_crop_takes_the_centre() -> None:
    size_settings = ImageSizeSettings(height=20, width=20, fit="crop")
    image = noise((20, 40))
    np.testing.assert_allclose(
        source_pixels(load_pixels(image, size_settings), size_settings).tensor().permute(1, 2, 0)
        * 255,
        np.asarray(image)[:, 10:30],
        atol=1e-4,
    )


def test_blank_images_are_grey_and_keep_their_size(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(np.arange(40 * 30 * 3, dtype=np.uint8).reshape(40, 30, 3)).save(path)
    pixels, blank = (
        load_pixels(path, ImageSizeSettings(height=20, width=0, blank=blank))
        for blank in (False, True)
    )
    assert pixels.shape == blank.shape == (20, 15, 3)
    assert len(np.unique(pixels)) > 1
    assert np.unique(blank).tolist() == [128]


# Images from other people's Python


def drawn(seed: int, *shape: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


GREY = drawn(1, 7, 9)
RGB = drawn(2, 7, 9, 3)
RGB[0, 0] = 0
RGB[1, 1] = 255
RGBA = drawn(3, 7, 9, 4)


def rgb_of(source: Any) -> Any:
    """Return an image's pixels as Pillow converts them."""
    image = as_image(source, "it")
    assert isinstance(image, Image.Image)
    return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (RGB, RGB),
        (GREY, np.repeat(GREY[..., None], 3, 2)),
        (GREY[..., None], np.repeat(GREY[..., None], 3, 2)),
        (RGBA, RGBA[..., :3]),
        (RGB[::-1, ::2], RGB[::-1, ::2]),
        (drawn(4, 3, 5, 3), drawn(4, 3, 5, 3)),
        (torch.from_numpy(RGB).permute(2, 0, 1), RGB),
        (torch.from_numpy(GREY), np.repeat(GREY[..., None], 3, 2)),
        (torch.from_numpy(GREY)[None], np.repeat(GREY[..., None], 3, 2)),
        (torch.from_numpy(RGBA).permute(2, 0, 1), RGBA[..., :3]),
    ],
    ids=[
        "RGB",
        "grey",
        "grey with an axis",
        "RGBA",
        "a view",
        "three rows",
        *("tensor " + c for c in ("RGB", "YX", "L", "RGBA")),
    ],
)
def test_arrays_and_tensors_of_bytes_are_images(source: Any, expected: Any) -> None:
    np.testing.assert_array_equal(rgb_of(source), expected)


@pytest.mark.parametrize(
    ("source", "because"),
    [
        (RGB / 255, r"an array \(float64\) of shape \(7, 9, 3\) with values from 0.* to 1; wanted whole numbers from 0 to 255 "
         r"\(uint8\): multiply by 255 and convert to uint8, \(image \* 255\)\.round\(\)\.astype\('uint8'\)"),
        (torch.from_numpy(RGB).permute(2, 0, 1) / 255, r"a tensor \(torch\.float32\).* \(image \* 255\)\.round\(\)\.to\(torch\.uint8\)"),
        (RGB.astype(np.float32), r"values from 0 to 255; .*: convert to uint8, image\.round\(\)\.astype\('uint8'\)"),
        (RGB.astype(np.int64), r"values from 0 to 255; .*: convert to uint8, image\.astype\('uint8'\)"),
        ((RGB / 128.0) - 1, r"values from -1 to .*: undo the normalisation"),
        (RGB.astype(np.uint16) * 257, "values from 0 to 65535; .*: scale them to 255"),
        (np.full((4, 4, 3), np.nan), "values from nan to nan; .*: replace what is not finite"),
        (RGB > 9, r"truth values; wanted whole numbers from 0 to 255 \(uint8\): image\.astype\('uint8'\) \* 255"),
        (RGB.astype(complex), "values of another kind; wanted whole numbers"),
        (RGB.transpose(2, 0, 1), r"of shape \(3, 7, 9\); wanted its channels last, \(Y, X, 3\): array\.transpose\(1, 2, 0\)"),
        (torch.from_numpy(RGB), r"of shape \(7, 9, 3\); wanted its channels first, \(3, Y, X\): tensor\.permute\(2, 0, 1\)"),
        (torch.zeros(3, 8, 3, dtype=torch.uint8), "channels could be the first axis or the last"),
        (RGB[None], r"of shape \(1, 7, 9, 3\), a batch of images; give them as a list of single ones: list\(images\)"),
        (drawn(5, 7, 9, 2), "wanted 1, 3 or 4 channels as its last axis"),
        (torch.zeros(5, 9, 9, dtype=torch.uint8), "wanted 1, 3 or 4 channels as its first axis"),
        (RGB.ravel(), r"of shape \(189,\); wanted the pixels of an image, \(Y, X\) or \(Y, X, 3\); .*array\.tobytes\(\)"),
        (np.uint8(3), r"of shape \(\); wanted the pixels"),
        (RGB[:0], r"of shape \(0, 9, 3\), which has no pixels"),
        (np.array([None, "a"], dtype=object).reshape(1, 2), "values of another kind"),
        (io.BytesIO(b"x"), r"got <_io\.BytesIO .*; give its content: file\.read\(\)"),
        (None, "wanted a path, the bytes of an image file, an image of Pillow, or an array of pixels .*, got None"),
        ([RGB, RGB], "got a list of 2; give all images in one flat list"),
        ({"bytes": b""}, "got a dict of 1"),
        ("", "'' is no path"),
        ("a\0b.png", "is no path"),
    ],
)  # fmt: skip
def test_other_objects_are_refused_with_how_to_convert_them(source: Any, because: str) -> None:
    with pytest.raises(DataError, match=f"^it: .*{because}"):
        as_image(source, "it")


def test_content_of_files_of_any_type_of_bytes_is_taken(tmp_path: Path) -> None:
    Image.fromarray(RGB).save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    for source in (content, bytearray(content), memoryview(content)):
        assert as_image(source, "it") == content


@pytest.mark.parametrize(
    ("images", "count"),
    [
        (RGB, 1),
        (torch.from_numpy(RGB), 1),
        (RGB[None], 1),
        ("a.png", 1),
        (b"x", 1),
        (None, 1),
        ({}, 1),
        ([], 0),
    ]
    + [([RGB, "a.png"], 2), ((RGB,), 1), (iter(["a", "b"]), 2), (io.BytesIO(), 1)],
)
def test_one_image_is_told_from_several(images: Any, count: int) -> None:
    assert len(as_images(images)) == count
