"""Codes of languages: what clients write, what models are called, and which of them mean the
same.
"""

from __future__ import annotations

import re
import string
from itertools import product

import pytest
from helpers.text_table import items, rows

from regard.data.language_codes import (
    CodeIndex,
    canonical_code,
    code_exists,
    script_of,
)

WRITTEN = """
    iw=he in=id ji=yi jw=jv tl=fil mo=ro sh=sr-Latn cmn=zh eng=en ger=de nob=nb no=no nno=nn prs=fa-AF
    zh_CN=zh-CN ZH-HANS=zh-Hans zh-hant-hk=zh-Hant-HK zh-rTW=zh-TW zh-CHS=zh-Hans zh-cmn-Hant=zh-Hant
    zh-yue=yue zh-min-nan=nan PT-BR=pt-BR pb=pt-BR zt=zh-Hant en_UK=en-GB ES-419=es-419
    sr@latin=sr-Latn sr_RS@latin=sr-Latn-RS be@latin=be-Latn be@tarask=be-tarask uz@cyrillic=uz-Cyrl
    ca@valencia=ca-valencia de_DE.UTF-8=de-DE de@euro=de eng_Latn=en kor_Hang=ko jpn_Jpan=ja
    zho_Hans=zh-Hans arb_Arab=ar srp_Cyrl=sr-Cyrl kas_Deva=ks-Deva pan_Guru=pa-Guru ary_Arab=ary
    i-klingon=tlh x-Elvish=x-elvish qaa=qaa de-CH-1996=de-CH-1996
"""


@pytest.mark.parametrize(
    ("text", "code"), [pair.split("=") for pair in WRITTEN.split()]
)
def test_what_clients_write(text: str, code: str) -> None:
    assert canonical_code(text) == code
    assert canonical_code(code) == code
    assert code_exists(text)


@pytest.mark.parametrize(
    ("codes", "models", "expected"),
    rows("""
        zh-CN zh_CN zh-SG zh cmn zho_Hans zh-CHS             | zh-Hans         | zh-Hans
        zh-TW zh_HK zh-MO zt zho_Hant ZH-HANT                | zh-Hant         | zh-Hant
        zh-TW zh-Hant zh-HK zt zh-Latn zh-pinyin yue         | zh              |
        zh-TW zh-Hant yue nan-TW                             | zh-Hans         |
        zh-CN zh-Hans zh-SG zho zh-Hans-SG                   | zh              | zh
        zh zh-CN chi                                         | zh-Hant zh-Hans | zh-Hans
        zh-TW zh-Hant zh-HK zt                               | zh-TW           | zh-TW
        zh-HK                                                | zh-TW zh-HK     | zh-HK
        sr-Latn sr@latin sr_Latn_RS sh hbs sr-ME cnr         | sr              |
        sr-Cyrl sr_RS srp SR scc                             | sr              | sr
        sr@latin sh sr-ME                                    | sr-Latn         | sr-Latn
        pa-PK pa-Arab                                        | pa              |
        pa-IN pan_Guru                                       | pa              | pa
        uz-AF uz@cyrillic                                    | uz              |
        uz_UZ uzn                                            | uz              | uz
        az-Latn                                              | az              | az
        az-IR                                                | az              |
        kk-CN                                                | kk              |
        kaz_Cyrl                                             | kk              | kk
        ms-Arab                                              | ms              |
        mn-Mong                                              | mn              |
        ja-Latn                                              | ja              |
        be@latin                                             | be              |
        iw                                                   | he              | he
        he                                                   | iw              | iw
        in_ID                                                | id              | id
        jw                                                   | jv              | jv
        fil                                                  | tl              | tl
        tl                                                   | fil             | fil
        no nb_NO                                             | nb              | nb
        NB                                                   | no              | no
        no                                                   | nn nb           | nb
        nn                                                   | no nb           |
        no                                                   | nn              |
        en-US EN-GB eng                                      | en              | en
        en                                                   | en-GB           | en-GB
        en                                                   | en-GB en        | en
        en_gb                                                | en-GB en        | en-GB
        pb                                                   | pt              | pt
        pb                                                   | pt-BR           | pt-BR
        pt                                                   | pt-PT pt-BR     | pt-BR
        pt-PT                                                | pt-BR           |
        pt-PT                                                | pt-BR pt        | pt
        ca@valencia                                          | ca              | ca
        ca                                                   | ca-valencia     | ca-valencia
        de-1996                                              | de              | de
        kor_Hang ko-KR                                       | ko              | ko
        hr                                                   | sr-Latn         |
        e                                                    | en              |
        x-elvish                                             | x-elvish        | x-elvish
        X17_y                                                | x17-Y           | x17-Y
    """),
)
def test_which_model_a_code_means(codes: str, models: str, expected: str) -> None:
    index = CodeIndex(models.split())
    assert index.match("") is None
    for code in codes.split():
        assert index.match(code) == (expected or None)


def test_names_that_stand_for_no_language_are_no_codes() -> None:
    """`src` is also a code of Logudorese Sardinian, whose shortest form is sc."""
    index = CodeIndex(["src", "tgt"], ("src", "tgt"))
    assert [index.match(code) for code in ("src", "SRC", "sc", "srd")] == [
        "src",
        "src",
        None,
        None,
    ]


def test_no_language_that_exists_is_refused() -> None:
    """All codes that are valid in langcodes, and those of ISO 639-3 that are newer."""
    langcodes = pytest.importorskip(
        "langcodes", reason="langcodes is not installed: pip install langcodes"
    )
    letters = string.ascii_lowercase
    codes = ["".join(code) for size in (2, 3) for code in product(letters, repeat=size)]
    valid = {
        code
        for code in codes
        if langcodes.Language.get(code, normalize=False).is_valid()
    }
    assert len(valid) > 8_500
    assert [code for code in valid if not code_exists(code)] == []
    assert {code for code in codes[:676] if code_exists(code)} - valid == {"pb", "zt"}
    newer = items("ajs dsz lgs vsn zcd und mul zxx qaa qtz x-a")
    assert [code for code in newer if not code_exists(code)] == []
    wrong = items("jp cn gr cz dk ua zz xx qua- x- english e")
    assert [code for code in wrong if code_exists(code)] == []


NEWER = items(
    "bji bsq drh gon grc hif kxc lzh man-GN pra rif rna sga sr-RU udi wsg zhx"
)
"""Codes whose likely script is another in CLDR 49 than in the older version of langcodes, or is not
told.
"""


def test_aliases_and_likely_scripts_are_those_of_langcodes() -> None:
    pytest.importorskip(
        "langcodes", reason="langcodes is not installed: pip install langcodes"
    )
    from langcodes.data_dicts import LANGUAGE_REPLACEMENTS, LIKELY_SUBTAGS

    likely = {
        tag: text.split("-")[1]
        for tag, text in LIKELY_SUBTAGS.items()
        if re.fullmatch("(?!und)[a-z]{2,3}(-[A-Za-z]{2})?", tag)
    }
    assert len(likely) > 1_300
    others = {tag for tag, script in likely.items() if script_of(tag) != script}
    assert others <= {*NEWER}

    replaced = {
        tag: text
        for tag, text in LANGUAGE_REPLACEMENTS.items()
        if re.fullmatch("[a-z]{2,3}", tag)
    }
    assert len(replaced) > 350
    differing = {
        tag
        for tag, text in replaced.items()
        if canonical_code(tag) != canonical_code(text)
    }
    assert differing <= {"nbx"}, "a code that was divided, and is assigned otherwise"
