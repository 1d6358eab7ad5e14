"""Word alignments are mapped to the tokens of the pairs they belong to, or refused with the
reason.
"""

from __future__ import annotations

import random
from array import array
from pathlib import Path
from typing import Any

import pytest
from material import write_corpus

from regard.common.errors import ConfigurationError, DataError
from regard.data.batch import Example, collate
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.corpus import CorpusSettings, Pair, PairFiles, read_corpus
from regard.data.mixture import Mixture
from regard.data.prepare import PreparedData, prepare_data
from regard.data.provenance import describe_changes
from regard.data.text import clean, read_lines, write_lines
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS
from regard.data.word_alignments import WordLinks, read_word_links, token_links

SIZES = TokenizerSettings(size=330)
BATCHING = BatchingSettings(tokens=200, micro_batches=2, buffer_size=70)


def write_aligned_corpus(
    folder: Path, count: int, seed: int = 0, name: str = "a"
) -> dict[str, str]:
    """Write files of pairs, of which filters drop a few, with distinct links for each line."""
    files = write_corpus(folder, count, seed, name=name)
    path = folder / f"{name}.align"
    write_lines(
        path, (format_links(*pair) for pair in zip(*map(read_lines, files.values()), strict=True))
    )
    return {**files, "alignments": str(path)}


def format_links(source: str, target: str) -> str:
    """Link each source word by a fixed hash of both sentences, some words to nothing."""
    S = len(source.split())
    T = len(target.split())
    rng = random.Random(f"{clean(source)}\n{clean(target)}")
    return " ".join(f"{rng.randrange(S)}-{t}" for t in range(T) if S and rng.random() < 0.8)


def linked_words(tokenizer: Tokenizer, example: Example) -> tuple[str, str, set[tuple[int, int]]]:
    """Return both sides of an example as text, and the words of its linked tokens."""
    sides = (tokenizer.source, example.source), (tokenizer.target, example.target)
    (source, left), (target, right) = (
        (side.decode(ids), side.word_indices(side.tokens(ids))) for side, ids in sides
    )
    assert example.links is not None
    pairs = zip(example.links[::2], example.links[1::2], strict=True)
    return source, target, {(left[i], right[j]) for i, j in pairs}


def assert_linked(tokenizer: Tokenizer, example: Example) -> None:
    """Assert that its links are those of its line, and that each token of a linked word has
    them.
    """
    source, target, actual = linked_words(tokenizer, example)
    expected = {
        (int(s), int(t))
        for s, t in (pair.split("-") for pair in format_links(source, target).split())
    }
    assert actual == expected
    assert example.links is not None
    left = tokenizer.source.word_indices(tokenizer.source.tokens(example.source))
    right = [*range(len(example.target))]
    tokens = tokenizer.target.word_indices(tokenizer.target.tokens(example.target))
    expected_links = {
        (i, j) for i, s in enumerate(left) for j in right if (s, tokens[j]) in expected
    }
    assert {*zip(example.links[::2], example.links[1::2], strict=True)} == expected_links


def training_examples(prepared: PreparedData) -> list[Example]:
    parts = (
        prepared.batches.streams if isinstance(prepared.batches, Mixture) else (prepared.batches,)
    )
    assert all(isinstance(part, BatchStream) for part in parts)
    return [example for part in parts for example in part.examples]  # type: ignore[union-attr]


@pytest.mark.parametrize("valid", ["held out", "given"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_links_stay_with_their_pairs(tmp_path: Path, dropout: float, valid: str) -> None:
    """Use filters, held-out pairs, and new segmentations in each epoch."""
    files: dict[str, Any] = write_aligned_corpus(tmp_path, 150)
    if valid == "given":
        files |= {
            f"valid_{side}": path for side, path in write_corpus(tmp_path, 20, 5, name="v").items()
        }
    data = CorpusSettings.parse(files, "the test")
    prepared = prepare_data(
        data, SIZES, BATCHING.with_values(subword_dropout=dropout), 3, tmp_path / "run"
    )
    assert any("word links read from" in entry for entry in prepared.report)
    segmentations = []
    for epoch in (0, 1):
        examples = [example for plan in prepared.batches.epoch(epoch) for example in plan.examples]
        assert len(examples) == prepared.pairs < 150
        assert sum(bool(example.links) for example in examples) > 100
        for example in examples:
            assert_linked(prepared.tokenizer, example)
        segmentations.append(sorted(example.source for example in examples))
    assert (segmentations[0] == segmentations[1]) is (dropout == 0)


def test_each_corpus_of_a_mix_has_its_own_links_or_none(tmp_path: Path) -> None:
    second = {**write_aligned_corpus(tmp_path, 60, 2, "b"), "name": "second"}
    data = CorpusSettings.parse({**write_corpus(tmp_path, 90), "mix": [second]}, "the test")
    prepared = prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    assert isinstance(prepared.batches, Mixture)
    first, linked = (part.examples for part in prepared.batches.streams)
    assert all(example.links is None for example in first)
    assert collate(first[:3]).links is None
    assert linked
    for example in linked:
        assert_linked(prepared.tokenizer, example)
    second_alone = CorpusSettings.parse({"mix": [second]}, "the test")
    assert second_alone.alignment_files == {"second": second["alignments"]}
    assert second_alone.without_alignments().alignment_files == {}


def test_alignment_weights_are_spread_over_the_tokens_of_linked_words() -> None:
    first = Example([5, 6, 7, EOS], [8, 9, EOS], links=array("i", [0, 0, 1, 0, 2, 0, 2, 1]))
    second = Example([5, EOS], [8, EOS], links=array("i"))
    links = collate([first, second]).links
    assert links is not None
    expected = [[[1 / 3, 1 / 3, 1 / 3, 0], [0, 0, 1, 0], [0] * 4], [[0] * 4] * 3]
    assert links.tolist() == [[pytest.approx(row) for row in rows] for rows in expected]
    whole = collate([first, second])
    for batch, part in zip((0, 1), whole.split(2), strict=True):
        assert part.links is not None
        assert part.links.tolist() == links[batch : batch + 1].tolist()
    assert collate([Example([5, EOS], [8, EOS])] * 2).links is None


def test_a_word_with_sure_links_has_no_merely_possible_ones(tmp_path: Path) -> None:
    write_lines(tmp_path / "links", ["0-0 1p0 1?1 0p1"])
    links = read_word_links(str(tmp_path / "links"), [Pair("a b", "x y", 1)], 1, "train")
    assert [*links[0]] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("source", "target", "links", "clean_links"),
    [
        ("An 10\u00a0km road", "가 나 다", "0-0 1-1 2-2", [0, 0, 1, 1, 2, 1, 3, 2]),
        ("man \u200b runs", "가 나", "0-0 2-1", [0, 0, 1, 1]),
        (
            "man \u200b runs",
            "가 나",
            "1-0 2-1",
            [1, 1],
        ),  # a word that no model sees is linked to nothing
        ("a  b", "가 나", "0-0 1-1", [0, 0, 1, 1]),
        (" a\tb\r", "가 나", "0-0 1-1", [0, 0, 1, 1]),
        ("a b", "가\u3000나 다\u202f라", "0-0 1-1", [0, 0, 0, 1, 1, 2, 1, 3]),
        ("cafe\u0301 b", "\ufeff가 \u00a0 나", "0-0 1-2", [0, 0, 1, 1]),
    ],
)
def test_links_count_the_words_of_the_files(
    tmp_path: Path, source: str, target: str, links: str, clean_links: list[int]
) -> None:
    """Words are what `bytes.split` finds: between white space of ASCII."""
    files = {name: tmp_path / name for name in ("source", "target", "links")}
    for name, line in (("source", source), ("target", target), ("links", links)):
        files[name].write_bytes(f"{line}\n".encode())
    corpus = read_corpus(PairFiles(str(files["source"]), str(files["target"]), None))
    assert [*read_word_links(str(files["links"]), corpus.pairs, 1, "train")[0]] == clean_links
    counts = len(source.encode().split()), len(target.encode().split())
    files["links"].write_text(f"{counts[0] - 1}-{counts[1] - 1}\n", encoding="utf-8")
    assert read_word_links(str(files["links"]), corpus.pairs, 1, "train").rows
    for link, side, count in (
        (f"{counts[0]}-0", "source", counts[0]),
        (f"0-{counts[1]}", "target", counts[1]),
    ):
        files["links"].write_text(f"{link}\n", encoding="utf-8")
        with pytest.raises(DataError, match=f"the {side} has {count} words, 0 to {count - 1}"):
            read_word_links(str(files["links"]), corpus.pairs, 1, "train")


def test_lines_that_others_may_count_otherwise_are_reported(tmp_path: Path) -> None:
    for name, lines in (
        ("source", ["a  b", "a b ", " a b"]),
        ("target", ["a", "a\tb", "a"]),
        ("links", ["0-0"] * 3),
    ):
        write_lines(tmp_path / name, lines)
    corpus = read_corpus(PairFiles(str(tmp_path / "source"), str(tmp_path / "target"), None))
    report = read_word_links(str(tmp_path / "links"), corpus.pairs, 3, "train").report
    assert report.endswith(
        "; 3 pairs have leading or doubled spaces, or tabs, between which links count no words"
    )


def test_every_token_of_a_word_is_linked() -> None:
    sources = ["안녕하세요 세계 😀"]
    targets = ["Donaudampfschiff Größe 😀"]
    tokenizer = Tokenizer.train(["안녕 세계"] * 4, ["Donau Größe"] * 4, TokenizerSettings(size=290))
    sides = [
        [*side.encode(text), EOS]
        for side, (text,) in ((tokenizer.source, sources), (tokenizer.target, targets))
    ]
    links = WordLinks((_flat((0, 0), (2, 2)),), "")
    (tokens,) = token_links(links.rows, [sides[0]], [sides[1]], tokenizer)
    _, _, word_links = linked_words(tokenizer, Example(*sides, links=tokens))
    assert word_links == {(0, 0), (2, 2)}
    assert len(tokens) // 2 > 8, "each token with each token"


def _flat(*links: tuple[int, int]) -> Any:
    return array("i", (word for link in links for word in link))


# --- invalid links


def test_all_problems_of_the_links_are_reported_at_once(tmp_path: Path) -> None:
    files = write_aligned_corpus(tmp_path, 40)
    lines = read_lines(files["alignments"])
    source = read_lines(files["source"])[5]
    lines[4], lines[5] = "0:0", f"0-0 {len(source.split())}-0"
    lines.append("0-0")
    write_lines(files["alignments"], lines)
    second = {**write_aligned_corpus(tmp_path, 30, 1, "b"), "name": "b"}
    second["alignments"] = str(tmp_path / "none")
    data = CorpusSettings.parse({**files, "mix": [second]}, "the test")
    with pytest.raises(DataError) as caught:
        prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    syntax, index, count, missing = caught.value.causes
    assert "a.align, line 5: wanted pairs such as 0-0" in syntax
    n = len(source.split())
    assert (
        f"a.align, line 6: {n}-0 names source word {n}, and the source has {n} words, 0 to {n - 1}"
        in index
    )
    assert (
        "a.align has 41 lines but train has 40 pairs; line n must link the words of pair n" in count
    )
    assert f"{tmp_path / 'none'}: no such file" in missing
    assert not (tmp_path / "run").exists()


def test_the_first_wrong_lines_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    write_lines(tmp_path / "links", ["9-9"] * 30)
    pairs = [Pair("a", "b", number) for number in range(1, 31)]
    with pytest.raises(DataError) as caught:
        read_word_links(str(tmp_path / "links"), pairs, 30, "train")
    assert len(caught.value.causes) == 6
    assert "25 more such lines (lines 6, 7, 8" in caught.value.causes[-1]


def test_links_of_dropped_pairs_are_checked(tmp_path: Path) -> None:
    write_lines(tmp_path / "links", ["0-0", "7-7", "seven"])
    with pytest.raises(DataError) as caught:
        read_word_links(str(tmp_path / "links"), [Pair("a", "b", 1)], 3, "train")
    assert [cause.partition(": ")[2][:30] for cause in caught.value.causes] == [
        "wanted pairs such as 0-0, or 0"
    ]


def test_links_in_shards_are_refused(tmp_path: Path) -> None:
    data = CorpusSettings.parse({**write_aligned_corpus(tmp_path, 40), "shards": True}, "the test")
    with pytest.raises(DataError, match="in shards have no word links; set data"):
        prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    assert prepare_data(data.without_alignments(), SIZES, BATCHING, 3, tmp_path / "run").pairs > 10


def test_links_without_pairs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="alignments link the words of source and target"):
        CorpusSettings.parse({"mix": [write_corpus(tmp_path, 9)], "alignments": "x"}, "the test")


def test_changed_links_are_reported(tmp_path: Path) -> None:
    files = write_aligned_corpus(tmp_path, 60)
    data = CorpusSettings.parse(files, "the test")
    original = prepare_data(data, SIZES, BATCHING, 3, tmp_path / "run")
    assert describe_changes(data, tmp_path / "run") == ()
    write_lines(
        files["alignments"], ["0-0" if text else "" for text in read_lines(files["alignments"])]
    )
    resumed = prepare_data(data, original.tokenizer, BATCHING, 3, tmp_path / "run")
    (change,) = resumed.changes
    assert change.startswith(
        f"train.alignments: {files['alignments']} has changed since the run began"
    )
    with pytest.raises(
        DataError, match=r"align has changed since the run began .*; put back what it was to go on"
    ):
        prepare_data(data, original.tokenizer, BATCHING, 3, tmp_path / "run", resumed=True)
    assert (
        "was there when the run began"
        in describe_changes(data.without_alignments(), tmp_path / "run")[0]
    )
    assert any(example.links for example in training_examples(resumed))
