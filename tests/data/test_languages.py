"""Language codes, and what the names of files and the settings of a corpus tell of languages."""

from __future__ import annotations

import json

import pytest
from helpers.text_table import rows

from regard.common.errors import ConfigurationError, UsageError
from regard.data.corpus_settings import CorpusSettings
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


@pytest.mark.parametrize(
    ("settings", "source", "target"),
    rows("""
        {"source": "train.ko", "target": "train.txt"} | ko |
        {"source": "a.ko", "target": "b", "source_language": "de", "target_language": "en"} | de | en
        {"pairs": "web.ko-en.tsv"} | ko | en
        {"source": "a.ko", "target": "a.en", "mix": [{"pairs": "b.ko-en.tsv"}, {"pairs": "c"}]} | ko | en
        {"source": "a.ko", "target": "a.en", "mix": [{"source": "b.de", "target": "b.en"}]} | | en
        {"images": {"folder": "images", "captions": "train.ko.tsv"}} | | ko
        {"images": {"folder": "images", "captions": "train.ko.tsv"}, "target_language": "en"} | | en
    """),
)
def test_auto_languages_of_a_corpus_are_those_of_its_files(
    settings: str, source: str, target: str
) -> None:
    """Files of a mix have to agree, and captions have one language."""
    values = json.loads(settings)
    assert CorpusSettings.parse(values, "test").languages.pair == (source, target)
    if "images" in values:
        message = r"images have no source_language \(ko\)"
        with pytest.raises(ConfigurationError, match=message):
            CorpusSettings.parse({**values, "source_language": "ko"}, "test")


def test_languages_that_no_file_tells_are_the_given_ones() -> None:
    default = Languages(source="fr", target="en")
    named = CorpusSettings(source="train.ko", target="train.txt")
    unknown = named.with_values(source_language="")
    assert named.with_languages(default).languages.pair == ("ko", "en")
    assert unknown.with_languages(default).languages.pair == ("", "en")
    settled = named.with_languages(Languages())
    assert (settled.source_language, settled.target_language) == ("ko", "")
    assert settled.with_languages(Languages(target="en")) == settled
