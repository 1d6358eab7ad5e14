"""Colours by role for light and dark themes, and a perceptually uniform colour scale for weights.

The parts of a figure refer to colours by symbolic names, called paints. A paint is one of:

- a role (`ink`, `muted`, …);
- `w0` … `w100`, a shade of the weight scale, and `v0` … `v100`, the text on that shade;
- `p0` … `p100` and `n0` … `n100`, positive and negative numbers, which diverge from the paper;
- `s0` … `s7`, one of several series, and `t0` … `t7`, a tint of it.

Lightness in Oklab is linear along the weight scale, so that equal steps of weight look equal. The
hue stays blue. Links are vermilion, which remains distinguishable from blue in all common forms of
colour blindness (Okabe and Ito 2008).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
LEVELS = 100
VEIL = (14, 17, 22)
"""Colour (RGB) of the dark veil over images."""
OPACITY = 0.62
"""Opacity of the veil at a weight of zero."""

ROLES = ("paper", "ink", "muted", "grid", "rule", "link")
_ROLES: dict[Theme, dict[str, str]] = {
    "light": dict(
        zip(
            ROLES,
            ("#ffffff", "#1a1d21", "#5d646d", "#e6e9ee", "#c3cad4", "#d55e00"),
            strict=True,
        )
    ),
    "dark": dict(
        zip(
            ROLES,
            ("#14171b", "#eceff3", "#a0a8b3", "#262b32", "#454d59", "#ff9d4d"),
            strict=True,
        )
    ),
}
# Hues of Okabe and Ito (2008), dark or light enough to be read as text
_SERIES: dict[Theme, tuple[str, ...]] = {
    "light": (
        "#0060a8",
        "#c04a00",
        "#00785a",
        "#a03f80",
        "#7a6000",
        "#4a5058",
        "#b0202a",
        "#00788a",
    ),
    "dark": (
        "#58b4f0",
        "#ff9a57",
        "#3ed0a4",
        "#eb9fcc",
        "#e6c84a",
        "#b4bcc6",
        "#ff8080",
        "#5fdce6",
    ),
}
SERIES = len(_SERIES["light"])
# Stops along the scale in Oklch, evenly spaced and interpolated linearly: lightness, chroma, hue in
# degrees
_LIGHTNESS: dict[Theme, tuple[float, ...]] = {"light": (1.0, 0.3), "dark": (0.21, 0.95)}
_CHROMA: dict[Theme, tuple[float, ...]] = {
    "light": (0.0, 0.06, 0.11, 0.14, 0.1),
    "dark": (0.02, 0.1, 0.12, 0.09, 0.04),
}
_HUE: dict[Theme, tuple[float, ...]] = {"light": (235.0, 265.0), "dark": (265.0, 225.0)}
_SIGNED_LIGHTNESS: dict[Theme, tuple[float, ...]] = {
    "light": (1.0, 0.46),
    "dark": (0.21, 0.8),
}
_SIGNED_HUES = {"p": 255.0, "n": 45.0}  # blue, vermilion
_SIGNED_CHROMA = 0.15
_MUTED_BELOW = 5  # text on lighter shades is muted


def level(weight: float, ceiling: float = 1.0) -> int:
    """Return the shade (0 to 100) of a weight on the scale whose top stands for `ceiling`."""
    return min(LEVELS, max(0, round(LEVELS * weight / ceiling)))


def signed_paint(value: float) -> str:
    """Return the paint of a signed number, −1 to 1; 0 is the colour of the paper."""
    return f"{'n' if value < 0 else 'p'}{level(abs(value))}"


@cache
def colour(paint: str, theme: Theme) -> str:
    """Return the colour of a paint as #rrggbb."""
    if paint in _ROLES[theme]:
        return _ROLES[theme][paint]
    kind = paint[0]
    number = int(paint[1:])
    if kind == "s":
        return _SERIES[theme][number]
    if kind == "t":
        return _tint(_SERIES[theme][number], theme)
    if kind in _SIGNED_HUES:
        return _signed_shade(number / LEVELS, _SIGNED_HUES[kind], theme)
    if kind == "v":
        return _text_on(number, theme)
    if kind != "w":
        raise ValueError(f"unknown paint {paint!r}")
    return _shade(number, theme)


def _tint(hex_colour: str, theme: Theme) -> str:
    """Return a colour mixed with the colour of the paper."""
    channels = bytes.fromhex(hex_colour[1:])
    paper = bytes.fromhex(_ROLES[theme]["paper"][1:])
    mixed = [
        round(0.45 * channel + 0.55 * paper_channel)
        for channel, paper_channel in zip(channels, paper, strict=True)
    ]
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _signed_shade(share: float, hue: float, theme: Theme) -> str:
    if share == 0:
        return _ROLES[theme]["paper"]
    return _from_oklch(
        _interpolate(_SIGNED_LIGHTNESS[theme], share), _SIGNED_CHROMA * share, hue
    )


def _shade(number: int, theme: Theme) -> str:
    if number == 0:
        return _ROLES[theme]["paper"]
    lightness, chroma, hue = (
        _interpolate(stops[theme], number / LEVELS)
        for stops in (_LIGHTNESS, _CHROMA, _HUE)
    )
    return _from_oklch(lightness, chroma, hue)


def _interpolate(stops: tuple[float, ...], share: float) -> float:
    """Interpolate linearly between evenly spaced stops; `share` of the way, 0 to 1."""
    position = share * (len(stops) - 1)
    first = min(int(position), len(stops) - 2)
    return stops[first] + (stops[first + 1] - stops[first]) * (position - first)


def _from_oklch(lightness: float, chroma: float, hue: float) -> str:
    """Convert Oklch to sRGB (Ottosson 2020); chroma is reduced if the colour is out of gamut."""
    angle = math.radians(hue)
    for percent in range(100, -1, -1):
        reduced = chroma * percent / 100
        a = reduced * math.cos(angle)
        b = reduced * math.sin(angle)
        channels = _linear_rgb(lightness, a, b)
        if all(-1e-3 <= c <= 1.001 for c in channels):
            break
    return "#" + "".join(f"{round(255 * _encode(c)):02x}" for c in channels)


def _linear_rgb(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    """Convert Oklab to linear sRGB (Ottosson 2020)."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )


def _encode(linear: float) -> float:
    """Encode a linear channel by the transfer function of sRGB."""
    linear = min(1.0, max(0.0, linear))
    return (
        12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055
    )


def luminance(hex_colour: str) -> float:
    """Return the relative luminance of a colour by WCAG 2, 0 to 1."""
    shares = (int(hex_colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (
        s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours by WCAG 2, 1 to 21."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _text_on(shade: int, theme: Theme) -> str:
    """Return the colour of text on a shade: muted on a light one, else black or white."""
    if shade < _MUTED_BELOW:
        return _ROLES[theme]["muted"]
    return max(
        ("#000000", "#ffffff"), key=lambda text: contrast(text, _shade(shade, theme))
    )
