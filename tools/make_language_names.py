"""Write the codes and names of languages that Regard knows, from Unicode CLDR by way of Babel.

    pip install babel==2.19.0 && python tools/make_language_names.py

The names are CLDR's, under the Unicode License v3 (https://www.unicode.org/license.txt), which lets
them be passed on.
"""

from __future__ import annotations

import re
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "regard" / "data" / "languages.tsv"
HEADER = (
    "# Code, name in English, in Korean and in itself: Unicode CLDR, (c) Unicode, Inc., Unicode "
    "License v3 (https://www.unicode.org/license.txt)\n"
)


def main() -> None:
    """Write a line for each code of two or three letters."""
    from babel import Locale, UnknownLocaleError

    from regard.data.language_codes import canonical_code

    english = Locale("en").languages
    korean = Locale("ko").languages
    lines = []
    for code in sorted(english):
        if not re.fullmatch("[a-z]{2,3}", code) or code in (
            "und",
            "mul",
            "mis",
            "zxx",
            "root",
        ):
            continue
        # Two letters may be an older code with a name, such as tl.
        if len(code) == 3 and canonical_code(code) != code:
            continue
        try:
            own = Locale(code).languages.get(code, "")
        except UnknownLocaleError:
            own = ""
        lines.append("\t".join((code, english[code], korean.get(code, ""), own)))
    OUT.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
