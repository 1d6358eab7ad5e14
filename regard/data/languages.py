"""Languages of a model: codes as in BCP 47, and what the names of files tell of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from regard.common.errors import UsageError
from regard.common.settings import Settings

AUTO = "auto"
_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_LONGEST = 35
"""Characters of the longest code (RFC 5646, section 4.4.1)."""
_NAMED = re.compile(r"([a-z]{2,3})(?:[-_]([A-Za-z]{2}|[A-Za-z]{4}))?")
_BOTH_NAMED = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")
_ENDINGS = {"gz", "txt", "tsv", "csv", "json", "jsonl", "ndjson", "raw", "tok", "bpe", "lc", "tc"}
"""Endings of names that come after the language."""
_NO_LANGUAGES = {"src", "ada", "bin", "del", "ext", "man", "mid", "min", "new", "rom", "sas", "vec"}
"""Endings that are a code of a table and mean something else."""
NAMES_FILE = Path(__file__).parent / "languages.tsv"
_TABLE = """
    aa:aar ab:abk ae:ave af:afr ak:aka+fat+twi am:amh an:arg ar:ara+arb as:asm av:ava ay:aym+ayr az:aze+azj ba:bak
    be:bel bg:bul bi:bis bm:bam bn:ben bo:bod+tib br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre+cwd cs:ces+cze
    cu:chu cv:chv cy:cym+wel da:dan de:deu+ger dv:div dz:adp+dzo ee:ewe el:ell+gre en:eng eo:epo es:spa et:ekk+est
    eu:baq+eus fa:fas+per+pes ff:fuc+ful fi:fin fj:fij fo:fao fr:fra+fre fy:fry ga:gle gd:gla gl:glg gn:grn+gug
    gu:guj+prp gv:glv ha:hau he:heb hi:hin ho:hmo hr:hrv+scr ht:hat hu:hun hy:arm+hye hz:her ia:ina id:ind ie:ile
    ig:ibo ii:iii ik:esk+ipk io:ido is:ice+isl it:ita iu:ike+iku ja:jpn jv:jav+jaw ka:geo+kat kg:kng+kon ki:kik
    kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau+knc ks:kas ku:kmr+kur kv:kom+kpv kw:cor ky:kir la:lat lb:ltz
    lg:lug li:lim ln:lin lo:lao lt:lit lu:lub lv:lav+lvs mg:mlg+plt mh:mah mi:mao+mri mk:mac+mkd ml:mal
    mn:drh+khk+mon mr:mar ms:may+msa+zsm mt:mlt my:bur+mya na:nau nb:nob nd:nde ne:nep+npi ng:ndo nl:dut+nld nn:nno
    no:nor nr:nbl nv:nav ny:nya oc:oci oj:ojg+oji om:gaz+orm or:ori+ory os:oss pa:pan pi:pli pl:pol ps:pbu+pus
    pt:por qu:que+quz rm:roh rn:run ro:mol+ron+rum ru:rus rw:kin sa:cls+san sc:src+srd sd:snd se:sme sg:sag si:sin
    sk:slk+slo sl:slv sm:smo sn:sna so:som sq:alb+als+sqi sr:scc+srp ss:ssw st:sot su:sun sv:swe sw:swa+swh ta:tam
    te:tel tg:tgk th:tha ti:tir tk:tuk tn:tsn to:ton tr:tur ts:tso tt:tat ty:tah ug:uig uk:ukr ur:urd uz:uzb+uzn
    ve:ven vi:vie vo:vol wa:wln wo:wol xh:xho yi:ydd+yid yo:yor za:zha+zyb zh:chi+cmn+zho zu:zul
"""
"""Two-letter codes of ISO 639-1, each with its three-letter codes (the aliases of Unicode CLDR)."""
_SHORT = {
    long: short for short, _, longs in (row.partition(":") for row in _TABLE.split()) for long in longs.split("+")
}


@cache
def language_names() -> dict[str, tuple[str, ...]]:
    """Return the names of each language of Unicode CLDR by its code: in English, in Korean and in itself, if known."""
    lines = NAMES_FILE.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {code: tuple(names) for code, *names in rows}


@cache
def _codes() -> dict[str, str]:
    """Return the code of each name in lower case; of a name of several languages the first."""
    names = ((name.casefold(), code) for code, names in language_names().items() for name in names if name)
    return dict(reversed([*names]))


def code_of(text: str) -> str:
    """Return the code that a text is or names, such as hsb for Upper Sorbian. Raises ValueError for others.

    What can be a code is one: ga is Irish, and Ga the language of that name, whose code is gaa.
    """
    code = None if _CODE.fullmatch(text) else _codes().get(text.casefold())
    return code or canonical_code(text)


def canonical_code(code: str) -> str:
    """Return a language code in its shortest form, such as de for deu; empty: unknown. Raises ValueError for others."""
    if code and not (_CODE.fullmatch(code) and len(code) <= _LONGEST):
        raise ValueError(
            f"wanted a language code such as ko, en or zh-Hans (BCP 47; empty: unknown), got {code[:_LONGEST]!r}"
        )
    language, hyphen, rest = code.partition("-")
    return _SHORT.get(language, language) + hyphen + rest


def _canonical_or_auto(code: str) -> str:
    return code if code == AUTO else canonical_code(code)


LanguageCode = Annotated[str, AfterValidator(canonical_code)]
LanguageSetting = Annotated[str, AfterValidator(_canonical_or_auto)]


class Languages(Settings):
    """The languages of a model's source and target; empty: unknown, or images."""

    source: LanguageCode = Field("", description="language of the source")
    target: LanguageCode = Field("", description="language of the target")

    def __str__(self) -> str:
        return " → ".join(self.codes)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes that are known, each once."""
        return tuple(dict.fromkeys(filter(None, self.pair)))

    @property
    def pair(self) -> tuple[str, str]:
        """The codes of source and target."""
        return self.source, self.target


def parse_languages(text: str, origin: str, captions: bool = False) -> Languages:
    """Parse codes or names such as ko,Upper Sorbian; of captions one. Raises UsageError that names their `origin`."""
    codes = [code.strip() for code in text.split(",")]
    wanted = "one code, that of the captions, such as en" if captions else "codes of source and target, such as ko,en"
    if len(codes) != (1 if captions else 2):
        raise UsageError(f"{origin}: wanted {wanted}; got {text[:80]!r}")
    try:
        source, target = ("", *map(code_of, codes)) if captions else map(code_of, codes)
    except ValueError as problem:
        raise UsageError(f"{origin}: {problem}") from None
    return Languages(source=source, target=target)


def language_of_name(path: str | Path) -> str:
    """Return the language that the name of a file ends in, such as train.ko or train.ko.txt.gz; empty: none."""
    return named_code(_last_part(path))


def named_code(text: str) -> str:
    """Return the code that a text is, in its usual form, such as pt-BR for pt_br; empty: it is none.

    It has to be a code of ISO 639-1, one of the three-letter codes of the same languages, or one of Unicode CLDR.
    """
    match = _NAMED.fullmatch(text)
    if match is None or match[0] in _NO_LANGUAGES:
        return ""
    language, rest = _SHORT.get(match[1], match[1]), match[2] or ""
    rest = rest.title() if len(rest) == 4 else rest.upper()
    return "-".join(filter(None, (language, rest))) if language in language_names() else ""


def languages_of_name(path: str | Path) -> Languages:
    """Return the languages in the name of a file of pairs, such as news.ko-en.tsv or app.en-hsb.train.tsv."""
    for part in reversed(Path(path).name.split(".")[1:]):
        match = _BOTH_NAMED.fullmatch(part)
        source, target = map(named_code, match.groups()) if match else ("", "")
        if source and target:
            return Languages(source=source, target=target)
    return Languages()


def only(codes: Iterable[str]) -> str:
    """Return the one code that occurs; empty: none, or several."""
    different = {code for code in codes if code}
    return different.pop() if len(different) == 1 else ""


def _last_part(path: str | Path) -> str:
    """Return the last part of a file's name after its first one that says more than its format; empty: none."""
    parts = [part for part in Path(path).name.split(".") if part][1:]
    return next((part for part in reversed(parts) if part.lower() not in _ENDINGS), "")
