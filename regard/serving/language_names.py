"""English names of languages by code (ISO 639-1, or 639-3 if there is none), as the clients' lists show them."""

from __future__ import annotations

_NAMES = """
af Afrikaans|am Amharic|ar Arabic|az Azerbaijani|be Belarusian|bg Bulgarian|bn Bengali|bs Bosnian|ca Catalan
cs Czech|cy Welsh|da Danish|de German|el Greek|en English|eo Esperanto|es Spanish|et Estonian|eu Basque|fa Persian
fi Finnish|fil Filipino|fr French|ga Irish|gl Galician|gu Gujarati|he Hebrew|hi Hindi|hr Croatian|hu Hungarian
hy Armenian|id Indonesian|is Icelandic|it Italian|ja Japanese|ka Georgian|kk Kazakh|km Khmer|kn Kannada|ko Korean
ku Kurdish|ky Kyrgyz|la Latin|lo Lao|lt Lithuanian|lv Latvian|mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi
ms Malay|mt Maltese|my Burmese|nb Norwegian Bokmål|ne Nepali|nl Dutch|nn Norwegian Nynorsk|no Norwegian|pa Punjabi
pl Polish|ps Pashto|pt Portuguese|ro Romanian|ru Russian|si Sinhala|sk Slovak|sl Slovenian|so Somali|sq Albanian
sr Serbian|sv Swedish|sw Swahili|ta Tamil|te Telugu|tg Tajik|th Thai|tk Turkmen|tl Tagalog|tr Turkish|tt Tatar
ug Uyghur|uk Ukrainian|ur Urdu|uz Uzbek|vi Vietnamese|xh Xhosa|yi Yiddish|yo Yoruba|zh Chinese|zu Zulu
en-GB English (British)|en-US English (American)|pt-BR Portuguese (Brazilian)|pt-PT Portuguese (European)
zh-Hans Chinese (simplified)|zh-Hant Chinese (traditional)|src Source language|tgt Target language
"""
NAMES: dict[str, str] = dict(entry.split(" ", 1) for entry in _NAMES.strip().replace("\n", "|").split("|"))


def language_name(code: str) -> str:
    """Return the English name of a language, with its region or script in brackets; the code if nothing is known."""
    if code in NAMES:
        return NAMES[code]
    base, _, rest = code.partition("-")
    return f"{NAMES[base]} ({rest})" if rest and base in NAMES else code
