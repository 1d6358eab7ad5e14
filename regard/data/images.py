"""Image files: decode JPEG, PNG, WebP, GIF and BMP, resize to what a model takes, and apply
augmentation.

An image in memory has the shape (Y, X, 3): Y rows and X columns of pixels, with red, green and
blue from 0 to 255. `as_image` accepts or refuses the images that callers of the Python API pass.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pydantic
import torch
from PIL import Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import jpeg_factory
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile
from pydantic import Field

from regard.common.arguments import describe
from regard.common.errors import DataError
from regard.common.reading import file_bytes
from regard.common.settings import COUNT, SIDE, Settings
from regard.common.shapes import Float, Tensor
from regard.data.text import did_you_mean

Pixels = npt.NDArray[np.uint8]
Size = tuple[int, int]  # rows, columns
Box = tuple[int, int, int, int]  # top, left, bottom, right
ImageSource = str | os.PathLike[str] | bytes | Image.Image
CHANNELS = (1, 3, 4)
"""Numbers of channels that an array or tensor may have: grey, RGB, or RGB with transparency."""


_FORMATS: tuple[
    tuple[str, Callable[[bytes], bool], Callable[[io.BytesIO], Image.Image]], ...
] = (
    (
        "JPEG",
        lambda start: start.startswith(b"\xff\xd8\xff"),
        lambda file: jpeg_factory(file),
    ),
    ("PNG", lambda start: start.startswith(b"\x89PNG\r\n\x1a\n"), PngImageFile),
    (
        "WebP",
        lambda start: start[:4] == b"RIFF" and start[8:12] == b"WEBP",
        WebPImageFile,
    ),
    ("GIF", lambda start: start.startswith(b"GIF8"), GifImageFile),
    ("BMP", lambda start: start.startswith(b"BM"), BmpImageFile),
)
"""Each format's name, the test of a file's first bytes, and Pillow's class that reads it."""

_TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Transpositions that turn an image upright, by EXIF orientation (tag 274)."""
_ORIENTATION = 0x0112  # the EXIF tag

BLANK = 128  # grey level of blank images
# Bytes of a file for each pixel, at most: four channels of 32 bits.
_BYTES_PER_PIXEL = 16
# Bytes of a file for colour profiles, thumbnails and other metadata, at most.
_METADATA = 1 << 26
# Pixels that are converted at once, since some conversions take thirty bytes for each.
_STRIP = 1 << 20
# Weights of red, green and blue in the luma of ITU-R BT.601.
_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)


class ImageSizeSettings(Settings):
    """Size of the images that a model takes.

    The settings are saved with the model, so that every image is treated alike.
    """

    height: int = Field(
        160,
        ge=0,
        le=SIDE,
        description="Rows of pixels that images are resized to; 0: in proportion to width.",
    )
    width: int = Field(
        160,
        ge=0,
        le=SIDE,
        description="Columns; 0: in proportion to height. Both 0: images keep their size, up to "
        "`max_side`.",
    )
    max_side: int = Field(
        512,
        ge=1,
        le=SIDE,
        description="Longest side in pixels if height or width is 0.",
    )
    fit: Literal["stretch", "crop", "pad"] = Field(
        "stretch",
        description="How an image of another aspect ratio is fitted: stretch it; crop the side "
        "that is too long (at random in training, else evenly); pad: keep its aspect "
        "ratio, so that one side is shorter.",
    )
    cell: int = Field(
        16,
        ge=1,
        le=SIDE,
        description="Side in pixels of a grid cell, which counts like a token in batches.",
    )
    blank: bool = Field(
        False,
        description="Make all pixels grey: the baseline that sees no image and learns from "
        "captions alone.",
    )
    max_pixels: int = Field(
        50_000_000,
        ge=1,
        le=COUNT,
        description="Files with more pixels are refused before decoding (decompression bombs).",
    )
    max_file_side: int = Field(
        65_535,
        ge=1,
        le=COUNT,
        description="Files with a longer side are refused before decoding: the rows of a stripe "
        "cost more than its pixels.",
    )

    def resized(self, size: Size) -> Size:
        """Return the size that an image of this size is resized to, before any cropping."""
        Y, X = size
        if self.height and self.width and self.fit == "stretch":
            return self.height, self.width

        if self.height and self.width:
            scales = self.height / Y, self.width / X
            scale = max(scales) if self.fit == "crop" else min(scales)
        else:
            scale = 1.0
            if self.height:
                scale = self.height / Y
            elif self.width:
                scale = self.width / X
            scale = min(scale, self.max_side / max(Y, X))
        return max(1, round(Y * scale)), max(1, round(X * scale))

    def cropped(self, size: Size) -> Size:
        """Return the size to which an image of the resized `size` is cropped."""
        if self.fit == "crop" and self.height and self.width:
            return min(self.height, size[0]), min(self.width, size[1])
        return size


class ImageSettings(ImageSizeSettings):
    """Images and captions to train on, and how images are augmented."""

    folder: str | None = Field(
        None,
        description="Folder of the images; file names in the captions are relative to it.",
    )
    captions: str | None = Field(
        None,
        description="File of their captions: a table (CSV, XLSX, ODS); lines of file, tab, "
        "caption; Flickr8k tokens; JSON (COCO, Karpathy).",
    )
    valid_captions: str | None = Field(None, description="Captions to validate on.")
    valid_folder: str | None = Field(
        None, description="Folder of their images, if it is another."
    )
    skip_bad: bool = Field(
        False,
        description="Skip and count images and captions that cannot be used, instead of refusing "
        "all.",
    )
    captions_per_image: int = Field(
        5,
        ge=1,
        le=COUNT,
        description="Captions of an image that are learnt together, so that it is encoded once.",
    )
    flip: bool | Literal["auto"] = Field(
        "auto",
        description="Mirror every second training image; auto: but not those whose captions say "
        "left or right, nor any if the tokenizer (char or whitespace) says that the "
        "images show writing.",
    )
    random_crop: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Crop up to this share of both sides of training images, at random.",
    )
    colour_jitter: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Change brightness, contrast and saturation of training images by up to this "
        "share.",
    )

    @pydantic.model_validator(mode="after")
    def _are_named(self) -> ImageSettings:
        remedy = "give folder and captions (`images=` and `captions=`)"
        if self.folder is None and self.captions is None:
            raise ValueError(remedy)
        if self.captions is None:
            raise ValueError(f"folder is given without captions; {remedy}")
        if self.folder is None:
            raise ValueError(f"captions is given without folder; {remedy}")
        return self

    @property
    def paths(self) -> dict[str, Path]:
        """The caption files by corpus and role, such as "train.captions"."""
        paths = {"train.captions": self.captions, "valid.captions": self.valid_captions}
        return {role: Path(path) for role, path in paths.items() if path is not None}

    @property
    def size_settings(self) -> ImageSizeSettings:
        """The part that is saved with a model."""
        return ImageSizeSettings(
            **{name: getattr(self, name) for name in ImageSizeSettings.model_fields}
        )


@dataclass(frozen=True)
class AugmentParams:
    """Augmentation of one image: crop, mirroring and colour jitter."""

    box: Box
    mirrored: bool = False
    # Factors of brightness, contrast and saturation.
    colours: tuple[float, float, float] | None = None


@dataclass(frozen=True, eq=False)
class SourcePixels:
    """Source image with its augmentation.

    Its length is the number of grid cells, which count like tokens.
    """

    pixels: Pixels = field(repr=False)  # (Y, X, 3), before augmentation
    size: Size  # after augmentation, as the model takes it
    cell: int  # side of a grid cell in pixels
    augment: AugmentParams

    def __len__(self) -> int:
        rows, columns = self.grid
        return rows * columns

    @property
    def grid(self) -> Size:
        """Rows and columns of grid cells."""
        return -(-self.size[0] // self.cell), -(-self.size[1] // self.cell)

    def tensor(self) -> Float[Tensor, "3 Y X"]:
        """Crop, resize, mirror and jitter the image; return values from 0 to 1."""
        top, left, bottom, right = self.augment.box
        pixels: Pixels = self.pixels[top:bottom, left:right]
        if pixels.shape[:2] != self.size:
            pixels = _resize(Image.fromarray(np.ascontiguousarray(pixels)), self.size)

        values = pixels.astype(np.float32) / np.float32(255)
        if self.augment.mirrored:
            values = values[:, ::-1]
        if self.augment.colours is not None:
            values = _jitter_colours(values, *self.augment.colours)
        return torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)))


def source_pixels(pixels: Pixels, image_size: ImageSizeSettings) -> SourcePixels:
    """Wrap a resized image without augmentation; `fit="crop"` crops it at the centre."""
    Y, X = pixels.shape[:2]
    height, width = image_size.cropped((Y, X))
    top = (Y - height) // 2
    left = (X - width) // 2
    box = (top, left, top + height, left + width)
    return SourcePixels(pixels, (height, width), image_size.cell, AugmentParams(box))


def as_images(images: Any) -> list[Any]:
    """Return one image, or an iterable of images, as a list.

    A path, bytes, an array, an open file and anything that is not iterable are one image.
    """
    single_types = (
        str,
        bytes,
        bytearray,
        memoryview,
        Mapping,
        os.PathLike,
        Image.Image,
        SourcePixels,
    )
    is_single = (
        isinstance(images, single_types)
        or _is_array(images)
        or hasattr(images, "read")
        or not isinstance(images, Iterable)
    )
    return [images] if is_single else list(images)


def as_image(value: Any, name: str) -> ImageSource:
    """Convert an image of any accepted type to a path, the bytes of a file, or a Pillow image.

    Arrays and tensors hold whole numbers from 0 to 255 (uint8). NumPy arrays have the shape (Y, X),
    (Y, X, 1), (Y, X, 3) or (Y, X, 4); tensors (Y, X), (1, Y, X), (3, Y, X) or (4, Y, X). Raises
    DataError for anything else; its message says how to convert the value.
    """
    if isinstance(value, str) and (not value or "\0" in value):
        raise DataError(
            f"{name}: {value[:40]!r} is no path; give the path of an image file"
        )
    if isinstance(value, Image.Image) and value.mode == "F":
        raise DataError(
            f"{name}: got an image of Pillow in mode F, whose values have no known range; wanted "
            "whole numbers from 0 to 255: for values from 0 to 1, "
            "Image.fromarray((numpy.asarray(image) * 255).round().astype('uint8'))"
        )
    if isinstance(value, (str, bytes, os.PathLike, Image.Image)):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if _is_array(value):
        return _from_array(value, name)
    wanted = (
        "wanted a path, the bytes of an image file, an image of Pillow, or an array of pixels "
        "(uint8)"
    )
    remedy = ""
    if hasattr(value, "read"):
        remedy = "; give its content: file.read()"
    elif isinstance(value, (list, tuple)):
        remedy = (
            "; give all images in one flat list, "
            "pixels as numpy.asarray(pixels, dtype='uint8')"
        )
    raise DataError(f"{name}: {wanted}, got {describe(value)}{remedy}")


def _is_array(value: Any) -> bool:
    """Return whether a value is a tensor, or an array of any package that NumPy can read."""
    return isinstance(value, torch.Tensor) or (
        hasattr(value, "__array__") and hasattr(value, "shape")
    )


def _from_array(value: Any, name: str) -> Image.Image:
    """Convert an array or tensor to a Pillow image.

    Raises DataError if that is impossible; its message says how to convert the value.
    """
    is_tensor = isinstance(value, torch.Tensor)
    if is_tensor:
        kind = f"a tensor ({value.dtype})"
    else:
        kind = f"an array ({getattr(value, 'dtype', type(value).__name__)})"
    got = f"{name}: got {kind} of shape {tuple(value.shape)}"

    try:
        array = (
            value.detach().cpu().to_dense().numpy() if is_tensor else np.asarray(value)
        )
    except Exception as problem:
        # Quantised tensors and other packages' arrays raise exceptions of any class.
        raise DataError(
            f"{got}, which NumPy cannot read ({problem}); convert it to uint8"
        ) from None

    wanted = "(Y, X) or (3, Y, X)" if is_tensor else "(Y, X) or (Y, X, 3)"
    if array.ndim == 4:
        raise DataError(
            f"{got}, a batch of images; give them as a list of single ones: list(images)"
        )
    if array.ndim not in (2, 3):
        hint = (
            "; the content of a file is given as bytes: array.tobytes()"
            if array.ndim == 1
            else ""
        )
        raise DataError(f"{got}; wanted the pixels of an image, {wanted}{hint}")
    if 0 in array.shape:
        raise DataError(f"{got}, which has no pixels; give another image")

    if array.ndim == 3:
        array = _channels_last(array, is_tensor, got)
    if array.dtype != np.uint8:
        raise DataError(f"{got} with {_conversion(array, is_tensor)}")

    pixels = np.ascontiguousarray(array[..., 0] if array.shape[2:] == (1,) else array)
    return Image.fromarray(pixels)


def _channels_last(
    array: npt.NDArray[Any], is_tensor: bool, got: str
) -> npt.NDArray[Any]:
    """Return an array of three axes with its channels last.

    Channels are the first axis of a tensor and the last of an array. Raises DataError if they are
    another axis, or if a tensor leaves open which axis they are.
    """
    may_be_first = array.shape[0] in CHANNELS
    may_be_last = array.shape[2] in CHANNELS
    if is_tensor and may_be_first and may_be_last:
        raise DataError(
            f"{got}, whose channels could be the first axis or the last; give an array of NumPy, "
            "(Y, X, 3)"
        )
    if is_tensor and may_be_first:
        return array.transpose(1, 2, 0)
    if not is_tensor and may_be_last:
        return array

    if may_be_first or may_be_last:
        move = "tensor.permute(2, 0, 1)" if is_tensor else "array.transpose(1, 2, 0)"
        order = "first, (3, Y, X)" if is_tensor else "last, (Y, X, 3)"
        raise DataError(f"{got}; wanted its channels {order}: {move}")
    axis = "first" if is_tensor else "last"
    raise DataError(f"{got}; wanted 1, 3 or 4 channels as its {axis} axis")


def _conversion(array: npt.NDArray[Any], is_tensor: bool) -> str:
    """Describe the values of an array that is not uint8, and how to convert them to it."""
    wanted = "wanted whole numbers from 0 to 255 (uint8)"
    convert = ".to(torch.uint8)" if is_tensor else ".astype('uint8')"
    if array.dtype == np.bool_:
        return f"truth values; {wanted}: image{convert} * 255"
    is_floating = np.issubdtype(array.dtype, np.floating)
    if not is_floating and not np.issubdtype(array.dtype, np.integer):
        return f"values of another kind; {wanted}"

    low = float(array.min())
    high = float(array.max())
    values = f"values from {low:g} to {high:g}; {wanted}"
    if not (np.isfinite(low) and np.isfinite(high)):
        return f"{values}: replace what is not finite"
    if low < 0:
        return f"{values}: undo the normalisation of the pixels, then convert to uint8"
    if is_floating and high <= 1:
        return f"{values}: multiply by 255 and convert to uint8, (image * 255).round(){convert}"
    if high <= 255:
        rounded = "image.round()" if array.dtype.kind == "f" else "image"
        return f"{values}: convert to uint8, {rounded}{convert}"
    return f"{values}: scale them to 255, then convert to uint8"


def read_bytes(path: Path, max_pixels: int) -> bytes:
    """Read an image file.

    Raises DataError if the file is missing, empty, or larger than an image of `max_pixels` can be.
    """
    try:
        size = path.stat().st_size
        if size > _BYTES_PER_PIXEL * max_pixels + _METADATA:
            raise DataError(
                f"{path}: {size:,} bytes, more than an image of {max_pixels:,} pixels takes "
                "(data.images.max_pixels); give an image, or allow more"
            )
        data = file_bytes(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file{did_you_mean(path)}") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder; give an image in it") from None
    except OSError as problem:
        raise DataError(
            f"{path}: cannot be read ({problem.strerror}); check the path and its permissions"
        ) from None
    if not data:
        raise DataError(f"{path}: the file is empty (0 bytes); fetch the image again")
    return data


def load_pixels(
    source: ImageSource, image_size: ImageSizeSettings, name: str | None = None
) -> Pixels:
    """Load an image and resize it as `image_size` says; return its pixels (Y, X, 3).

    Raises DataError if the image cannot be used.
    """
    if isinstance(source, (str, os.PathLike)):
        name = name or str(source)
        source = read_bytes(Path(source), image_size.max_pixels)
    name = name or "the image"

    if isinstance(source, bytes):
        source = decode_image(
            source, name, image_size, (image_size.height, image_size.width)
        )
    elif 0 in source.size:
        raise DataError(
            f"{name}: has no pixels ({source.width} × {source.height}); give another image"
        )
    else:
        source = _upright(source, name, source.format or "given")

    image = _to_rgb(source)
    size = image_size.resized((image.height, image.width))
    if size[0] * size[1] > image_size.max_pixels:
        _check_pixels(image, name, image_size.max_pixels)
        raise DataError(
            f"{name}: {image.width:,} × {image.height:,} is so thin that it would be resized to "
            f"{size[1]:,} × {size[0]:,} before it is cropped; leave it out, or crop it yourself"
        )
    pixels = _resize(image, size)
    return np.full_like(pixels, BLANK) if image_size.blank else pixels


def decode_image(
    data: bytes, name: str, limits: ImageSizeSettings, target_size: Size = (0, 0)
) -> Image.Image:
    """Decode the bytes of an image file, and turn the image upright.

    A large JPEG is decoded at a half, a quarter or an eighth of its size if that is still more than
    twice the `target_size` (rows, columns). Raises DataError if the file is damaged or if its
    header exceeds `max_pixels` or `max_file_side`.
    """
    kind, image = _open_header(data, name)

    _check_pixels(image, name, limits.max_pixels)
    if max(image.size) > limits.max_file_side:
        raise DataError(
            f"{name}: {image.width:,} × {image.height:,}, a side longer than the "
            f"{limits.max_file_side:,} pixels that data.images.max_file_side allows; cut it into "
            "pieces, or allow more"
        )
    if kind in ("GIF", "PNG", "WebP") and getattr(image, "n_frames", 1) > 1:
        raise DataError(
            f"{name}: an animated {kind} of {getattr(image, 'n_frames', 2)} frames, and it is "
            "unclear which one is meant; save one frame as PNG or JPEG"
        )

    if kind == "JPEG" and all(target_size):
        image.draft(None, (2 * max(target_size), 2 * max(target_size)))
    return _upright(image, name, kind)


def _check_pixels(image: Image.Image, name: str, max_pixels: int) -> None:
    """Raise DataError if an image has more than `max_pixels` pixels."""
    pixels = image.width * image.height
    if pixels > max_pixels:
        raise DataError(
            f"{name}: {image.width:,} × {image.height:,} are {pixels:,} pixels, more than the "
            f"{max_pixels:,} that data.images.max_pixels allows; make it smaller, or allow more "
            "if you trust the file"
        )


def _upright(image: Image.Image, name: str, kind: str) -> Image.Image:
    """Decode the image and apply its EXIF orientation."""
    transpose = None
    with suppress(Exception):  # EXIF data may be damaged although the image is not
        transpose = _TRANSPOSES.get(image.getexif().get(_ORIENTATION, 1))

    try:
        image.load()
    except Exception as problem:
        # Decoders raise exceptions of any class for damaged files.
        reason = str(problem).rstrip(".") or type(problem).__name__
        raise DataError(
            f"{name}: a damaged {kind} image ({reason}); fetch it again"
        ) from None
    return image if transpose is None else image.transpose(transpose)


def _open_header(data: bytes, name: str) -> tuple[str, Image.Image]:
    """Recognise the format of an image and read its header; return both.

    Pillow's format classes are called directly because the pixel limit of `Image.open` is global to
    the process.
    """
    for kind, matches, open_image in _FORMATS:
        if matches(data[:16]):
            try:
                return kind, open_image(io.BytesIO(data))
            except Exception:  # decoders raise exceptions of any class
                raise DataError(
                    f"{name}: a damaged {kind} image (its header is broken); fetch it again"
                ) from None
    raise DataError(
        f"{name}: {_describe_content(data)}, not a JPEG, PNG or WebP image; give one, or convert it"
    )


def _describe_content(data: bytes) -> str:
    """Describe the content of a file that is no supported image."""
    if data.startswith(b"%PDF"):
        return "a PDF document"
    if data.startswith((b"II*\0", b"MM\0*")):
        return "a TIFF image"
    if data[4:8] == b"ftyp":
        return "a HEIC or AVIF image, or a video"

    with suppress(UnicodeDecodeError):
        # The first 200 bytes of a longer file may end within a character.
        text = data[:200].decode("utf-8", "strict" if len(data) <= 200 else "ignore")
        is_text = (
            "\0" not in text
            and "\ufffd" not in text
            and sum(map(str.isprintable, text)) > 0.9 * len(text)
        )
        if is_text:
            first_line = text.split("\n")[0].strip()
            ellipsis = "…" if len(first_line) > 30 else ""
            return f"text ({first_line[:30]!r}{ellipsis})"
    return f"of an unknown kind (it begins with the bytes {data[:4].hex(' ')})"


def _to_rgb(image: Image.Image) -> Image.Image:
    """Convert an image to RGB: blend transparency with white, and reduce 16 bits to 8.

    The conversion goes strip by strip, which bounds its memory.
    """
    has_wide_values = image.mode.startswith("I") or image.mode == "F"
    if not has_wide_values and not image.has_transparency_data:
        return image if image.mode == "RGB" else image.convert("RGB")

    white = 255.0
    if has_wide_values and (
        image.mode.startswith("I;16") or np.asarray(image).max(initial=0) > white
    ):
        white = 65535.0

    result = Image.new("RGB", image.size)
    rows = max(1, _STRIP // image.width)
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        if has_wide_values:
            values = np.asarray(strip, dtype=np.float64) * (255 / white)
            strip = Image.fromarray(values.clip(0, 255).astype(np.uint8))
        if strip.has_transparency_data:
            strip = strip.convert("RGBA")
            strip = Image.alpha_composite(Image.new("RGBA", strip.size, "white"), strip)
        result.paste(strip.convert("RGB"), (0, top))
    return result


def _resize(image: Image.Image, size: Size) -> Pixels:
    if (image.height, image.width) != size:
        image = image.resize((size[1], size[0]), Image.Resampling.BICUBIC)
    return np.array(image, dtype=np.uint8)


def _jitter_colours(
    values: npt.NDArray[np.float32],
    brightness: float,
    contrast: float,
    saturation: float,
) -> npt.NDArray[np.float32]:
    """Multiply brightness, contrast and saturation by these factors, and clip to [0, 1]."""
    values = values * np.float32(brightness)

    grey = values @ _GREY
    mean = np.float32(grey.mean())
    grey = ((grey - mean) * np.float32(contrast) + mean)[..., None]
    values = (values - mean) * np.float32(contrast) + mean

    return np.clip(grey + (values - grey) * np.float32(saturation), 0, 1)
