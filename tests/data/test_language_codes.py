"""Codes of languages: what clients write, what models are called, and which of them mean the
same.
"""

from __future__ import annotations

import re
import string
from itertools import product

import pytest

from regard.data.language_codes import CodeIndex, canonical_code, code_exists, parse_tag, script_of

NEWER = {
    *(
        "bji",
        "bsq",
        "drh",
        "gon",
        "grc",
        "hif",
        "kxc",
        "lzh",
        "man-GN",
        "pra",
        "rif",
        "rna",
        "sga",
        "sr-RU",
        "udi",
    ),
    *("wsg", "zhx"),
}
"""Codes whose likely script is another in CLDR 49 than in the older version of langcodes, or is not
told.
"""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *(
            ("iw", "he"),
            ("in", "id"),
            ("ji", "yi"),
            ("jw", "jv"),
            ("tl", "fil"),
            ("mo", "ro"),
            ("sh", "sr-Latn"),
        ),
        *(
            ("cmn", "zh"),
            ("eng", "en"),
            ("ger", "de"),
            ("nob", "nb"),
            ("no", "no"),
            ("nno", "nn"),
            ("prs", "fa-AF"),
        ),
        *(
            ("zh_CN", "zh-CN"),
            ("ZH-HANS", "zh-Hans"),
            ("zh-hant-hk", "zh-Hant-HK"),
            ("zh-rTW", "zh-TW"),
        ),
        *(
            ("zh-CHS", "zh-Hans"),
            ("zh-cmn-Hant", "zh-Hant"),
            ("zh-yue", "yue"),
            ("zh-min-nan", "nan"),
        ),
        *(
            ("PT-BR", "pt-BR"),
            ("pb", "pt-BR"),
            ("zt", "zh-Hant"),
            ("en_UK", "en-GB"),
            ("ES-419", "es-419"),
        ),
        *(
            ("sr@latin", "sr-Latn"),
            ("sr_RS@latin", "sr-Latn-RS"),
            ("be@latin", "be-Latn"),
            ("be@tarask", "be-tarask"),
        ),
        *(
            ("uz@cyrillic", "uz-Cyrl"),
            ("ca@valencia", "ca-valencia"),
            ("de_DE.UTF-8", "de-DE"),
            ("de@euro", "de"),
        ),
        *(
            ("eng_Latn", "en"),
            ("kor_Hang", "ko"),
            ("jpn_Jpan", "ja"),
            ("zho_Hans", "zh-Hans"),
            ("arb_Arab", "ar"),
        ),
        *(
            ("srp_Cyrl", "sr-Cyrl"),
            ("kas_Deva", "ks-Deva"),
            ("pan_Guru", "pa-Guru"),
            ("ary_Arab", "ary"),
        ),
        *(
            ("i-klingon", "tlh"),
            ("x-Elvish", "x-elvish"),
            ("qaa", "qaa"),
            ("de-CH-1996", "de-CH-1996"),
        ),
    ],
)
def test_what_clients_write(text: str, code: str) -> None:
    assert canonical_code(text) == code
    assert canonical_code(code) == code
    assert code_exists(text)


@pytest.mark.parametrize(
    ("text", "models", "expected"),
    [
        *((code, ["zh-Hans"], "zh-Hans") for code in ("zh-CN", "zh_CN", "zh-SG", "zh", "cmn", "zho_Hans", "zh-CHS")),
        *((code, ["zh-Hant"], "zh-Hant") for code in ("zh-TW", "zh_HK", "zh-MO", "zt", "zho_Hant", "ZH-HANT")),
        *((code, ["zh"], None) for code in ("zh-TW", "zh-Hant", "zh-HK", "zt", "zh-Latn", "zh-pinyin", "yue")),
        *((code, ["zh-Hans"], None) for code in ("zh-TW", "zh-Hant", "yue", "nan-TW")),
        *((code, ["zh"], "zh") for code in ("zh-CN", "zh-Hans", "zh-SG", "zho", "zh-Hans-SG")),
        *((code, ["zh-Hant", "zh-Hans"], "zh-Hans") for code in ("zh", "zh-CN", "chi")),
        *((code, ["zh-TW"], "zh-TW") for code in ("zh-TW", "zh-Hant", "zh-HK", "zt")),
        ("zh-HK", ["zh-TW", "zh-HK"], "zh-HK"),
        *((code, ["sr"], None) for code in ("sr-Latn", "sr@latin", "sr_Latn_RS", "sh", "hbs", "sr-ME", "cnr")),
        *((code, ["sr"], "sr") for code in ("sr-Cyrl", "sr_RS", "srp", "SR", "scc")),
        *((code, ["sr-Latn"], "sr-Latn") for code in ("sr@latin", "sh", "sr-ME")),
        *((("pa-PK", ["pa"], None), ("pa-IN", ["pa"], "pa"), ("pa-Arab", ["pa"], None), ("pan_Guru", ["pa"], "pa"))),
        *((("uz-AF", ["uz"], None), ("uz@cyrillic", ["uz"], None), ("uz_UZ", ["uz"], "uz"), ("uzn", ["uz"], "uz"))),
        *((("az-Latn", ["az"], "az"), ("az-IR", ["az"], None), ("kk-CN", ["kk"], None), ("kaz_Cyrl", ["kk"], "kk"))),
        *((("ms-Arab", ["ms"], None), ("mn-Mong", ["mn"], None), ("ja-Latn", ["ja"], None), ("be@latin", ["be"], None))),
        *((("iw", ["he"], "he"), ("he", ["iw"], "iw"), ("in_ID", ["id"], "id"), ("jw", ["jv"], "jv"))),
        *((("fil", ["tl"], "tl"), ("tl", ["fil"], "fil"), ("no", ["nb"], "nb"), ("NB", ["no"], "no"))),
        *((("no", ["nn", "nb"], "nb"), ("nn", ["no", "nb"], None), ("no", ["nn"], None), ("nb_NO", ["nb"], "nb"))),
        *((("en-US", ["en"], "en"), ("EN-GB", ["en"], "en"), ("en", ["en-GB"], "en-GB"), ("en", ["en-GB", "en"], "en"))),
        *((("pb", ["pt"], "pt"), ("pb", ["pt-BR"], "pt-BR"), ("pt", ["pt-PT", "pt-BR"], "pt-BR"))),
        *((("pt-PT", ["pt-BR"], None), ("pt-PT", ["pt-BR", "pt"], "pt"), ("en_gb", ["en-GB", "en"], "en-GB"))),
        *((("ca@valencia", ["ca"], "ca"), ("ca", ["ca-valencia"], "ca-valencia"), ("de-1996", ["de"], "de"))),
        *((("kor_Hang", ["ko"], "ko"), ("ko-KR", ["ko"], "ko"), ("eng", ["en"], "en"), ("hr", ["sr-Latn"], None))),
        *((("e", ["en"], None), ("", ["en"], None), ("x-elvish", ["x-elvish"], "x-elvish"), ("X17_y", ["x17-Y"], "x17-Y"))),
    ],
)  # fmt: skip
def test_which_model_a_code_means(text: str, models: list[str], expected: str | None) -> None:
    assert CodeIndex(models).match(text) == expected


def test_names_that_stand_for_no_language_are_no_codes() -> None:
    """`src` is also a code of Logudorese Sardinian, whose shortest form is sc."""
    index = CodeIndex(["src", "tgt"], ("src", "tgt"))
    assert (index.match("src"), index.match("SRC"), index.match("sc"), index.match("srd")) == (
        "src",
        "src",
        None,
        None,
    )


def test_no_language_that_exists_is_refused() -> None:
    """All codes that are valid in langcodes, and those of ISO 639-3 that are newer."""
    langcodes = pytest.importorskip(
        "langcodes", reason="langcodes is not installed: pip install langcodes"
    )
    letters = string.ascii_lowercase
    codes = ["".join(code) for size in (2, 3) for code in product(letters, repeat=size)]
    valid = {code for code in codes if langcodes.Language.get(code, normalize=False).is_valid()}
    assert len(valid) > 8_500
    assert [code for code in valid if not code_exists(code)] == []
    assert {code for code in codes[:676] if code_exists(code)} - valid == {"pb", "zt"}
    assert all(
        map(
            code_exists,
            ("ajs", "dsz", "lgs", "vsn", "zcd", "und", "mul", "zxx", "qaa", "qtz", "x-a"),
        )
    )
    assert not any(
        map(
            code_exists,
            ("jp", "cn", "gr", "cz", "dk", "ua", "zz", "xx", "qua-", "x-", "english", "e"),
        )
    )


def test_aliases_and_likely_scripts_are_those_of_langcodes() -> None:
    pytest.importorskip("langcodes", reason="langcodes is not installed: pip install langcodes")
    from langcodes.data_dicts import LANGUAGE_REPLACEMENTS, LIKELY_SUBTAGS

    likely = {
        tag: text.split("-")[1]
        for tag, text in LIKELY_SUBTAGS.items()
        if _is_language_or_region(tag)
    }
    assert len(likely) > 1_300
    assert {tag for tag, script in likely.items() if script_of(tag) != script} <= NEWER
    replaced = {
        tag: text for tag, text in LANGUAGE_REPLACEMENTS.items() if re.fullmatch("[a-z]{2,3}", tag)
    }
    differing = {
        tag for tag, text in replaced.items() if canonical_code(tag) != canonical_code(text)
    }
    assert len(replaced) > 350
    assert differing <= {"nbx"}, "a code that was divided, and is assigned otherwise since"


def test_tags_are_standardised_as_by_langcodes() -> None:
    langcodes = pytest.importorskip(
        "langcodes", reason="langcodes is not installed: pip install langcodes"
    )
    languages = (
        "en",
        "eng",
        "zh",
        "zho",
        "sr",
        "srp",
        "pt",
        "iw",
        "uz",
        "pa",
        "az",
        "aze",
        "ko",
        "kor",
        "no",
        "nb",
    )
    for language, script, region in product(
        languages, ("", "Latn", "Cyrl", "Hans", "Arab"), ("", "US", "cn", "419")
    ):
        text = "_".join(filter(None, (language.upper(), script.lower(), region)))
        tag = parse_tag(text)
        expected = langcodes.Language.get(langcodes.standardize_tag(text))
        assert tag is not None
        assert (tag.language, tag.region) == (expected.language, expected.territory or ""), text
        assert script_of(canonical_code(text)) == script_of(text) == (script or script_of(text)), (
            text
        )


def _is_language_or_region(tag: str) -> bool:
    return bool(re.fullmatch("[a-z]{2,3}(-[A-Za-z]{2})?", tag)) and not tag.startswith("und")
