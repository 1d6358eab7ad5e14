"""Pictures out of files: opened whatever their kind, brought to the size a model sees, looked at anew in each epoch.

Y rows and X columns of pixels; a picture in memory is (Y, X, 3), red, green and blue from 0 to 255.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import jpeg_factory
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile
from pydantic import Field

from regard.data.text import did_you_mean
from regard.errors import DataError
from regard.settings import Settings
from regard.shapes import Float, Tensor

__all__ = [
    "SUFFIXES",
    "AugmentParams",
    "ImageSizeSettings",
    "Pixels",
    "SourcePixels",
    "decode_image",
    "load_pixels",
    "read_bytes",
    "source_pixels",
]

Pixels = npt.NDArray[np.uint8]
Size = tuple[int, int]  # rows, columns
Box = tuple[int, int, int, int]  # top, left, bottom, right

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp")
"""How the names of pictures end; what is in a file is found out by looking into it."""
_KINDS: tuple[tuple[str, Callable[[bytes], bool], Callable[[io.BytesIO], Image.Image]], ...] = (
    ("JPEG", lambda start: start.startswith(b"\xff\xd8\xff"), lambda file: jpeg_factory(file)),
    ("PNG", lambda start: start.startswith(b"\x89PNG\r\n\x1a\n"), PngImageFile),
    ("WebP", lambda start: start[:4] == b"RIFF" and start[8:12] == b"WEBP", WebPImageFile),
    ("GIF", lambda start: start.startswith(b"GIF8"), GifImageFile),
    ("BMP", lambda start: start.startswith(b"BM"), BmpImageFile),
)
_TRANSPOSES = {
    2: (Image.Transpose.FLIP_LEFT_RIGHT,),
    3: (Image.Transpose.ROTATE_180,),
    4: (Image.Transpose.FLIP_TOP_BOTTOM,),
    5: (Image.Transpose.TRANSPOSE,),
    6: (Image.Transpose.ROTATE_270,),
    7: (Image.Transpose.TRANSVERSE,),
    8: (Image.Transpose.ROTATE_90,),
}
"""How a picture is turned upright, by what its camera noted (EXIF tag 274)."""
_ORIENTATION = 0x0112
BLANK = 128  # of pictures that are not to be seen
_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)


class ImageSizeSettings(Settings):
    """How large a model sees pictures; it is kept with the model, so that every picture is treated alike."""

    height: int = Field(160, ge=0, description="Rows of pixels that a picture is brought to; 0: as its width asks.")
    width: int = Field(
        160, ge=0, description="Columns; 0: as its height asks. Both 0: each keeps its size, up to `largest`."
    )
    max_side: int = Field(512, ge=1, description="Where a side is left open: the longer side in pixels at most.")
    fit: Literal["stretch", "crop", "pad"] = Field(
        "stretch",
        description="What is done to a picture of another shape: stretch it; cut off what is too much (at random in "
        "training, else evenly); pad: keep it whole and its shape, so that one side is shorter.",
    )
    cell: int = Field(16, ge=1, description="Pixels a side of what counts as one entry, like a piece, in batches.")
    blank: bool = Field(
        False,
        description="All pixels grey: what captions alone teach, to compare with a captioner that sees.",
    )
    max_pixels: int = Field(
        50_000_000, ge=1, description="A file with more pixels is refused before it is decoded: it may be a trap."
    )

    def resized(self, size: Size) -> Size:
        """The size that a picture of this size is brought to; for `crop` before it is cut."""
        Y, X = size
        if self.height and self.width:
            sides = self.height / Y, self.width / X
            if self.fit == "stretch":
                return self.height, self.width
            scale = max(sides) if self.fit == "crop" else min(sides)
        else:
            wanted = self.height / Y if self.height else self.width / X if self.width else 1.0
            scale = min(wanted, self.max_side / max(Y, X))
        return max(1, round(Y * scale)), max(1, round(X * scale))

    def cropped(self, size: Size) -> Size:
        """The size that a model sees of a picture that was brought to `inner` size."""
        cut = self.fit == "crop" and self.height and self.width
        return (min(self.height, size[0]), min(self.width, size[1])) if cut else size


@dataclass(frozen=True)
class AugmentParams:
    """How a picture is looked at this once: the part that is cut out, mirrored or not, and how bright, rich in contrast
    and colourful it is (1: as it is).
    """

    box: Box
    mirrored: bool = False
    colours: tuple[float, float, float] | None = None


@dataclass(frozen=True, eq=False)
class SourcePixels:
    """One picture as a batch wants it; its length is that in cells, which count like pieces."""

    pixels: Pixels = field(repr=False)  # (Y, X, 3), as it is kept
    size: Size  # as a model sees it
    cell: int
    augment: AugmentParams

    def __len__(self) -> int:
        rows, columns = self.grid
        return rows * columns

    @property
    def grid(self) -> Size:
        """Rows and columns of cells."""
        return -(-self.size[0] // self.cell), -(-self.size[1] // self.cell)

    def tensor(self) -> Float[Tensor, "3 Y X"]:
        """What a model sees, from 0 to 1."""
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
    """A picture that was brought to size, looked at straight: of one that is to be cut, the middle."""
    (Y, X), (height, width) = pixels.shape[:2], image_size.cropped(pixels.shape[:2])
    top, left = (Y - height) // 2, (X - width) // 2
    return SourcePixels(
        pixels, (height, width), image_size.cell, AugmentParams((top, left, top + height, left + width))
    )


def read_bytes(path: Path) -> bytes:
    """What is in a file of a picture. Raises DataError for one that is not there or empty."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file{did_you_mean(path)}") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder; give a picture in it") from None
    except OSError as problem:
        raise DataError(f"{path}: cannot be read ({problem.strerror}); check the path and its permissions") from None
    if not data:
        raise DataError(f"{path}: the file is empty (0 bytes); fetch the picture again")
    return data


def load_pixels(
    source: str | Path | bytes | Image.Image, image_size: ImageSizeSettings, name: str | None = None
) -> Pixels:
    """A picture as pixels of the size that `frame` asks for, (Y, X, 3). Raises DataError where it cannot be used."""
    if isinstance(source, (str, Path)):
        name, source = name or str(source), read_bytes(Path(source))
    name = name or "the picture"
    if isinstance(source, bytes):
        source = decode_image(source, name, image_size.max_pixels, (image_size.height, image_size.width))
    elif 0 in source.size:
        raise DataError(f"{name}: has no pixels ({source.width} × {source.height}); give another picture")
    else:
        source = _upright(source, name, source.format or "given")
    image = _to_rgb(source)
    inner = image_size.resized((image.height, image.width))
    if inner[0] * inner[1] > image_size.max_pixels:
        raise DataError(
            f"{name}: {image.width:,} × {image.height:,} is so thin that it would be brought to {inner[1]:,} × "
            f"{inner[0]:,} before it is cut; leave it out, or cut it yourself"
        )
    pixels = _resize(image, inner)
    return np.full_like(pixels, BLANK) if image_size.blank else pixels


def decode_image(data: bytes, name: str, max_pixels: int, target_size: Size = (0, 0)) -> Image.Image:
    """The picture in a file's bytes, decoded and upright. Raises DataError where there is none.

    A file with more than `most` pixels is refused by what its header says. `wanted` rows and columns will do: a large
    JPEG is decoded to a half, a quarter or an eighth where that is still more than twice as large.
    """
    kind, image = _open_header(data, name)
    if image.width * image.height > max_pixels:
        raise DataError(
            f"{name}: {image.width:,} × {image.height:,} are {image.width * image.height:,} pixels, more than the "
            f"{max_pixels:,} that data.images.max_pixels allows; make it smaller, or allow more if you trust the file"
        )
    if kind in ("GIF", "PNG", "WebP") and getattr(image, "n_frames", 1) > 1:
        raise DataError(
            f"{name}: an animated {kind} of {getattr(image, 'n_frames', 2)} pictures, and nobody can know which is "
            "meant; save one of them as PNG or JPEG"
        )
    if kind == "JPEG" and all(target_size):
        image.draft(None, (2 * max(target_size), 2 * max(target_size)))
    return _upright(image, name, kind)


def _upright(image: Image.Image, name: str, kind: str) -> Image.Image:
    """The picture decoded, and turned as its camera noted."""
    turns = _exif_transposes(image)
    try:
        image.load()
    except Exception as problem:  # decoders of damaged files raise whatever they like
        raise DataError(f"{name}: a damaged {kind} picture ({_said(problem)}); fetch it again") from None
    for turn in turns:
        image = image.transpose(turn)
    return image


def _open_header(data: bytes, name: str) -> tuple[str, Image.Image]:
    """Of which kind a picture is, and its header. Pillow's classes themselves are called: its `open` has a limit of its
    own for all threads of a program.
    """
    for kind, begins, read in _KINDS:
        if begins(data[:16]):
            try:
                return kind, read(io.BytesIO(data))
            except Exception:  # here too
                raise DataError(f"{name}: a damaged {kind} picture (its header is broken); fetch it again") from None
    raise DataError(f"{name}: {_describe_content(data)}, not a JPEG, PNG or WebP picture; give one, or convert it")


def _describe_content(data: bytes) -> str:
    """What a file is that is no picture we read."""
    for start, what in ((b"%PDF", "a PDF document"), (b"II*\0", "a TIFF picture"), (b"MM\0*", "a TIFF picture")):
        if data.startswith(start):
            return what
    if data[4:8] == b"ftyp":
        return "a HEIC or AVIF picture, or a film"
    with suppress(UnicodeDecodeError):
        text = data[:200].decode("utf-8", "strict" if len(data) <= 200 else "ignore")
        if "\0" not in text and "\ufffd" not in text and sum(map(str.isprintable, text)) > 0.9 * len(text):
            first = next(iter(text.split("\n"))).strip()
            return f"text ({first[:30]!r}{'…' if len(first) > 30 else ''})"
    return f"of an unknown kind (it begins with the bytes {data[:4].hex(' ')})"


def _exif_transposes(image: Image.Image) -> tuple[Image.Transpose, ...]:
    with suppress(Exception):  # what a camera noted may be damaged where the picture is not
        return _TRANSPOSES.get(image.getexif().get(_ORIENTATION, 1), ())
    return ()


def _to_rgb(image: Image.Image) -> Image.Image:
    """Red, green and blue, whatever it was: what can be seen through lies on white, 16 bits become 8."""
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image, dtype=np.float64)
        most = 65535.0 if image.mode.startswith("I;16") or values.max(initial=0) > 255 else 255.0
        image = Image.fromarray((values * (255 / most)).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _resize(image: Image.Image, size: Size) -> Pixels:
    if (image.height, image.width) != size:
        image = image.resize((size[1], size[0]), Image.Resampling.BICUBIC)
    return np.array(image, dtype=np.uint8)


def _jitter_colours(
    values: npt.NDArray[np.float32], light: float, contrast: float, colour: float
) -> npt.NDArray[np.float32]:
    """Brighter or darker, more or less contrast, more or less colour, still from 0 to 1."""
    values = values * np.float32(light)
    grey = values @ _GREY
    mean = np.float32(grey.mean())
    grey = ((grey - mean) * np.float32(contrast) + mean)[..., None]
    values = (values - mean) * np.float32(contrast) + mean
    return np.clip(grey + (values - grey) * np.float32(colour), 0, 1)


def _said(problem: Exception) -> str:
    """What a decoder said, without a point at its end."""
    return str(problem).rstrip(".") or type(problem).__name__
