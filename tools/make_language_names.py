"""Write the codes and names of languages that Regard knows, from Unicode CLDR by way of Babel.

    pip install babel==2.19.0 && python tools/make_language_names.py

The names are CLDR's, under the Unicode License v3 (https://www.unicode.org/license.txt), which lets
them be passed on.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "regard" / "data"
OUT = DATA / "languages.tsv"
FOREIGN = DATA / "foreign_names.tsv"
HEADER = (
    "# Code, name in English, in Korean and in itself: Unicode CLDR, (c) Unicode, Inc., Unicode "
    "License v3 (https://www.unicode.org/license.txt)\n"
)

FOREIGN_HEADER = (
    "# Code, and names of the language in other languages, in lower case: Unicode CLDR, (c) "
    "Unicode, Inc., Unicode License v3 (https://www.unicode.org/license.txt)\n"
)
WRITTEN_IN = "de fr es it pt nl pl cs ru uk tr zh ja"
"""Languages in which all names are written, separated by spaces."""
WELL_KNOWN = (
    "en de fr es it pt nl pl cs ru uk tr zh ja ko ar hi sv da nb fi hu ro el he fa vi id th bg sr "
    "hr sk sl lt lv et ca eu gl cy ga gd sw af la"
)
"""Languages whose names are written in all languages, separated by spaces."""


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
    write_foreign_names([line.split("\t") for line in lines])


def write_foreign_names(rows: list[list[str]]) -> None:
    """Write the names in other languages that belong to one language only."""
    from babel import Locale, localedata

    codes = [code for code, *_ in rows]
    known = {name.casefold() for _, *names in rows for name in names}
    owners = defaultdict[str, set[str]](set)
    bare_owners = defaultdict[str, set[str]](
        set
    )  # of names without what is in brackets
    for locale in localedata.locale_identifiers():
        if not re.fullmatch("[a-z]{2,3}", locale):
            continue
        names = Locale.parse(locale).languages
        is_large = locale in WRITTEN_IN.split()
        wanted = codes if is_large else [*WELL_KNOWN.split(), locale]
        for code in wanted:
            name = names.get(code, "").casefold()
            owners[name].add(code)
            bare_owners[re.sub(r" ?[(（].*", "", name)].add(code)
    bare_owners.update(owners)
    lines = [
        "\t".join(
            (
                code,
                *sorted(
                    name
                    for name, its in bare_owners.items()
                    if its == {code} and name not in known and len(name.encode()) > 2
                ),
            )
        )
        for code in codes
    ]
    foreign = [line for line in lines if "\t" in line]
    FOREIGN.write_text(FOREIGN_HEADER + "\n".join(foreign) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
