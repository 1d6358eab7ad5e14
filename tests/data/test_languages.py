"""Language codes, and what the names of files and the settings of a corpus tell of languages."""

from __future__ import annotations

import pytest
from helpers.text_table import rows

from regard.common.errors import ConfigurationError, UsageError
from regard.data.corpus import CorpusSettings, MixSettings
from regard.data.images import ImageSettings
from regard.data.language_codes import canonical_code
from regard.data.languages import (
    Languages,
    describe_codes,
    language_names,
    language_of_name,
    languages_of_name,
    parse_languages,
)


@pytest.mark.parametrize(
    ("code", "expected"),
    rows("""
                 |
        ko       | ko
        deu      | de
        ger      | de
        cmn-Hant | zh-Hant
        nds      | nds
        pt-BR    | pt-BR
    """),
)
def test_codes_are_shortened(code: str, expected: str) -> None:
    assert canonical_code(code) == expected
    assert canonical_code(expected) == expected


@pytest.mark.parametrize(
    "code",
    [
        "e",
        "english",
        "en-",
        "en-x",
        " en",
        "en\n",
        "en@",
        "en us",
        "en-US-",
        "ko-a1b2-a1",
    ],
)
def test_other_texts_are_refused(code: str) -> None:
    with pytest.raises(
        ValueError, match="wanted a language code such as ko, en or zh-Hans"
    ):
        canonical_code(code)
    with pytest.raises(ConfigurationError, match="target: wanted a language code"):
        Languages.parse({"target": code}, "test")
    with pytest.raises(
        ConfigurationError, match=r"source_language: wanted a language code .* got"
    ):
        CorpusSettings.parse(
            {"source": "a", "target": "b", "source_language": code}, "test"
        )


@pytest.mark.parametrize(
    ("name", "expected"),
    rows("""
        x/train.ko           | ko
        train.ko.gz          | ko
        news.2016.tok.de.txt | de
        train.zh-hans        | zh-Hans
        train.pt_BR          | pt-BR
        train.kor            | ko
        train.hsb.gz         | hsb
        train.txt            |
        train.src            |
        ko                   |
        ko.txt               |
        train.xx             |
                             |
        a.KO                 |
        a.bin                |
        train.in             |
        train.sh             |
    """),
)
def test_names_of_files_tell_a_language(name: str, expected: str) -> None:
    assert language_of_name(name) == expected


@pytest.mark.parametrize(
    ("name", "source", "target"),
    rows("""
        news.ko-en.tsv              | ko | en
        a.deu-eng.jsonl.gz          | de | en
        firefox.en-hsb.train.tsv.gz | en | hsb
        a.xx-en.tsv                 |    |
        pairs.tsv                   |    |
    """),
)
def test_names_of_files_of_pairs_tell_both(name: str, source: str, target: str) -> None:
    assert languages_of_name(name).pair == (source, target)


@pytest.mark.parametrize(
    ("text", "source", "target"),
    rows("""
        Upper Sorbian, german   | hsb | de
        한국어,hornjoserbšćina  | ko  | hsb
        ga,Ga                   | ga  | gaa
        Tagalog,Serbo-Croatian  | fil | sr-Latn
        ko, en                  | ko  | en
        ,en                     |     | en
    """),
)
def test_a_language_is_a_code_or_a_name(text: str, source: str, target: str) -> None:
    """A name is in English, in Korean, or in itself; a code goes before a name."""
    assert parse_languages(text, "--languages").pair == (source, target)


def test_languages_with_a_name_have_codes() -> None:
    older = {code for code in language_names() if code != canonical_code(code)}
    assert older == {"sh", "tl", "tw"}
    for code in language_names():
        assert parse_languages(f"{code},en", "--languages").source == canonical_code(
            code
        )
    assert parse_languages("en", "--languages", captions=True).pair == ("", "en")


@pytest.mark.parametrize(
    ("text", "captions", "message"),
    rows("""
        ko       |          | wanted codes of source and target
        ko,en,de |          | wanted codes of source and target
        ko,en    | captions | wanted one code
        Elvish,e |          | Elvish
    """),
)
def test_other_numbers_of_codes_are_refused(
    text: str, captions: str, message: str
) -> None:
    with pytest.raises(UsageError, match=f"--languages: .*{message}"):
        parse_languages(text, "--languages", bool(captions))


@pytest.mark.parametrize(
    ("code", "near"),
    rows("""
        jp      | ja
        cn      | zh
        gr      | el
        cz      | cs
        dk      | da
        ua      | uk
        vn      | vi
        tj      | tg
        by      | be
        kz      | kk
        rs      | sr
        il      | he
        us      | en
        Koreen  | ko
        zz      |
        qq-Latn |
    """),
)
def test_a_code_that_is_none_is_refused_with_the_nearest(code: str, near: str) -> None:
    hint = (
        rf".*did you mean {near} \("
        if near
        else ".*ISO 639; for a language without one write x-"
    )
    with pytest.raises(UsageError, match=f"--languages: {hint}"):
        parse_languages(f"{code},en", "--languages")
    with pytest.raises(ConfigurationError, match=rf"target_language: {hint}"):
        CorpusSettings.parse(
            {"source": "a", "target": "b", "target_language": code}, "test"
        )


@pytest.mark.parametrize(
    ("text", "sentences"),
    rows("""
        ko,en                |
        Korean,Upper Sorbian |
        qaa,x-elvish         |
        iw,zh_CN | language iw: kept as he (Hebrew); language zh_CN: kept as zh-CN (Chinese (CN))
        pb       | language pb: kept as pt-BR (Portuguese (Brazilian))
        kr,en    | language kr: is Kanuri, if Korean is meant, write ko
        se       | language se: is Northern Sami, if Swedish is meant, write sv
    """),
)
def test_a_code_that_is_kept_in_another_form_is_said(text: str, sentences: str) -> None:
    languages = parse_languages(text, "--languages", captions="," not in text)
    said = [
        sentence.replace("; if", ", if") for sentence in describe_codes(text, languages)
    ]
    assert "; ".join(said) == sentences
    assert Languages.parse(languages.model_dump(), "test") == languages


def test_auto_languages_of_a_corpus_are_those_of_its_files() -> None:
    default = Languages(source="fr", target="en")
    named = CorpusSettings(source="train.ko", target="train.txt")
    given = named.with_values(source_language="de", target_language="en")
    unknown = named.with_values(source_language="")
    for settings, pair in (
        (named, ("ko", "")),
        (named.with_languages(default), ("ko", "en")),
        (given, ("de", "en")),
        (unknown.with_languages(default), ("", "en")),
        (CorpusSettings(pairs="web.ko-en.tsv"), ("ko", "en")),
    ):
        assert settings.languages.pair == pair
    settled = named.with_languages(Languages())
    assert (settled.source_language, settled.target_language) == ("ko", "")
    assert settled.with_languages(Languages(target="en")) == settled


def test_corpora_of_a_mix_have_to_agree() -> None:
    both = CorpusSettings(
        source="a.ko",
        target="a.en",
        mix=(MixSettings(pairs="b.ko-en.tsv"), MixSettings(pairs="c.tsv")),
    )
    assert both.languages.pair == ("ko", "en")
    other = CorpusSettings(
        source="a.ko", target="a.en", mix=(MixSettings(source="b.de", target="b.en"),)
    )
    assert other.languages.pair == ("", "en")


def test_captions_have_one_language() -> None:
    images = ImageSettings(folder="images", captions="train.ko.tsv")
    assert CorpusSettings(images=images).languages.pair == ("", "ko")
    assert CorpusSettings(images=images, target_language="en").languages.pair == (
        "",
        "en",
    )
    with pytest.raises(
        ConfigurationError, match=r"images have no source_language \(ko\)"
    ):
        CorpusSettings.parse(
            {"images": images.model_dump(), "source_language": "ko"}, "test"
        )
