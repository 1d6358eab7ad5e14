"""Word alignments are mapped to the tokens of the pairs they belong to, or refused with the
reason.
"""

from __future__ import annotations

import random
from array import array
from pathlib import Path

import pytest
from material import write_corpus

from regard.common.errors import ConfigurationError, DataError
from regard.data.batch import Example, collate
from regard.data.batch_stream import BatchingSettings
from regard.data.corpus import read_corpus
from regard.data.corpus_settings import CorpusSettings
from regard.data.file_formats import PairFiles
from regard.data.mixture import Mixture
from regard.data.pairs import Pair
from regard.data.prepare import PreparedData, prepare_data
from regard.data.provenance import describe_changes
from regard.data.text import clean, read_lines, write_lines
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS
from regard.data.word_alignments import read_word_links

SIZES = TokenizerSettings(size=330)
BATCHING = BatchingSettings(tokens=200, micro_batches=2, buffer_size=70)


def write_aligned_corpus(
    folder: Path, count: int, seed: int = 0, name: str = "a"
) -> dict[str, str]:
    """Write files of pairs, of which filters drop a few, with distinct links for each line."""
    files = write_corpus(folder, count, seed, name=name)
    pairs = zip(read_lines(files["source"]), read_lines(files["target"]), strict=True)
    path = folder / f"{name}.align"
    write_lines(path, (format_links(*pair) for pair in pairs))
    return {**files, "alignments": str(path)}


def format_links(source: str, target: str) -> str:
    """Link each source word by a fixed hash of both sentences, some words to nothing."""
    S = len(source.split())
    T = len(target.split())
    rng = random.Random(f"{clean(source)}\n{clean(target)}")
    return " ".join(
        f"{rng.randrange(S)}-{t}" for t in range(T) if S and rng.random() < 0.8
    )


def assert_linked(tokenizer: Tokenizer, example: Example) -> None:
    """Assert that its links are those of its line, and that each token of a linked word has
    them.
    """
    source = tokenizer.source.decode(example.source)
    target = tokenizer.target.decode(example.target)
    pairs = [pair.split("-") for pair in format_links(source, target).split()]
    words = {(int(s), int(t)) for s, t in pairs}
    left = tokenizer.source.word_indices(tokenizer.source.tokens(example.source))
    right = tokenizer.target.word_indices(tokenizer.target.tokens(example.target))

    assert example.links is not None

    links = {*zip(example.links[::2], example.links[1::2], strict=True)}

    for i, s in enumerate(left):
        for j, t in enumerate(right):
            assert ((i, j) in links) is ((s, t) in words)


def prepare(files: dict[str, object], run: Path, dropout: float = 0.0) -> PreparedData:
    data = CorpusSettings.parse(files, "the test")
    return prepare_data(
        data, SIZES, BATCHING.with_values(subword_dropout=dropout), 3, run
    )


@pytest.mark.parametrize(("dropout", "valid"), [(0.0, "given"), (0.3, "held out")])
def test_links_stay_with_their_pairs(
    tmp_path: Path, dropout: float, valid: str
) -> None:
    """Use filters, held-out pairs, and new segmentations in each epoch."""
    files = write_aligned_corpus(tmp_path, 150)
    if valid == "given":
        given = write_corpus(tmp_path, 20, 5, name="v")
        files |= {f"valid_{side}": path for side, path in given.items()}

    prepared = prepare({**files}, tmp_path / "run", dropout)

    assert any("word links read from" in entry for entry in prepared.report)

    segmentations = []

    for epoch in (0, 1):
        plans = prepared.batches.epoch(epoch)
        examples = [example for plan in plans for example in plan.examples]

        assert len(examples) == prepared.pairs < 150
        assert sum(bool(example.links) for example in examples) > 100
        for example in examples:
            assert_linked(prepared.tokenizer, example)

        segmentations.append(sorted(example.source for example in examples))

    assert (segmentations[0] == segmentations[1]) is (dropout == 0)


def test_each_corpus_of_a_mix_has_its_own_links_or_none(tmp_path: Path) -> None:
    second = {**write_aligned_corpus(tmp_path, 60, 2, "b"), "name": "second"}
    files = {**write_corpus(tmp_path, 90), "mix": [second]}
    prepared = prepare(files, tmp_path / "run")

    assert isinstance(prepared.batches, Mixture)

    first, linked = (part.examples for part in prepared.batches.streams)
    assert all(example.links is None for example in first)
    assert linked
    for example in linked:
        assert_linked(prepared.tokenizer, example)

    alone = CorpusSettings.parse({"mix": [second]}, "the test")
    assert alone.alignment_files == {"second": second["alignments"]}
    assert alone.without_alignments().alignment_files == {}


def test_alignment_weights_are_spread_over_the_tokens_of_linked_words() -> None:
    links = array("i", [0, 0, 1, 0, 2, 0, 2, 1])
    first = Example([5, 6, 7, EOS], [8, 9, EOS], links=links)
    second = Example([5, EOS], [8, EOS], links=array("i"))
    whole = collate([first, second])

    assert whole.links is not None

    third = pytest.approx(1 / 3)
    assert whole.links.tolist() == [
        [[third, third, third, 0], [0, 0, 1, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0]] * 3,
    ]
    for batch, part in enumerate(whole.split(2)):
        assert part.links is not None
        assert part.links.tolist() == whole.links[batch : batch + 1].tolist()

    assert collate([Example([5, EOS], [8, EOS])] * 2).links is None


def test_a_word_with_sure_links_has_no_merely_possible_ones(tmp_path: Path) -> None:
    """Of wrong lines a few are shown and all are counted; those of dropped pairs may name any
    words.
    """
    path = str(tmp_path / "links")
    write_lines(path, ["0-0 1p0 1?1 0p1"])
    links = read_word_links(path, [Pair("a b", "x y", 1)], 1, "train")

    assert [*links[0]] == [0, 0, 0, 1, 1, 1]
    assert "leading or doubled spaces" not in links.report

    links = read_word_links(path, [Pair("a  b", "x y", 1)], 1, "train")
    assert "; 1 pair has leading or doubled spaces" in links.report

    write_lines(path, ["9-9"] * 30 + ["7-7", "seven"])
    pairs = [Pair("a", "b", number) for number in range(1, 31)]

    with pytest.raises(DataError) as caught:
        read_word_links(path, pairs, 32, "train")
    assert len(caught.value.causes) == 6
    assert "26 more such lines (lines 6, 7, 8" in caught.value.causes[-1]


@pytest.mark.parametrize(
    ("source", "target", "links", "clean_links"),
    [
        ("An 10\u00a0km road", "가 나 다", "0-0 1-1 2-2", "0-0 1-1 2-1 3-2"),
        ("man \u200b runs", "가 나", "0-0 2-1", "0-0 1-1"),
        # A word that no model sees is linked to nothing.
        ("man \u200b runs", "가 나", "1-0 2-1", "1-1"),
        (" a\tb\r", "가  나", "0-0 1-1", "0-0 1-1"),
        ("a b", "가\u3000나 다\u202f라", "0-0 1-1", "0-0 0-1 1-2 1-3"),
        ("cafe\u0301 b", "\ufeff가 \u00a0 나", "0-0 1-2", "0-0 1-1"),
    ],
)
def test_links_count_the_words_of_the_files(
    tmp_path: Path, source: str, target: str, links: str, clean_links: str
) -> None:
    """Words are what `bytes.split` finds: between white space of ASCII."""
    path = tmp_path / "links"
    for name, line in (("source", source), ("target", target)):
        (tmp_path / name).write_bytes(f"{line}\n".encode())
    corpus = read_corpus(PairFiles(tmp_path / "source", tmp_path / "target"))

    def read(line: str) -> str:
        path.write_text(f"{line}\n", encoding="utf-8")
        flat = read_word_links(str(path), corpus.pairs, 1, "train")[0]
        return " ".join(f"{s}-{t}" for s, t in zip(flat[::2], flat[1::2], strict=True))

    assert read(links) == clean_links

    S = len(source.encode().split())
    T = len(target.encode().split())
    read(f"{S - 1}-{T - 1}")

    with pytest.raises(DataError, match=f"the source has {S} words, 0 to {S - 1}"):
        read(f"{S}-0")
    with pytest.raises(DataError, match=f"the target has {T} words, 0 to {T - 1}"):
        read(f"0-{T}")


# --- invalid links


def test_all_problems_of_the_links_are_reported_at_once(tmp_path: Path) -> None:
    files = write_aligned_corpus(tmp_path, 40)
    lines = read_lines(files["alignments"])
    n = len(read_lines(files["source"])[5].split())
    lines[4] = "0:0"
    lines[5] = f"0-0 {n}-0"
    lines.append("0-0")
    write_lines(files["alignments"], lines)
    second = {**write_aligned_corpus(tmp_path, 30, 1, "b"), "name": "b"}
    second["alignments"] = str(tmp_path / "none")

    with pytest.raises(DataError) as caught:
        prepare({**files, "mix": [second]}, tmp_path / "run")

    syntax, index, count, missing = caught.value.causes
    assert "a.align, line 5: wanted pairs such as 0-0" in syntax
    assert f"line 6: {n}-0 names source word {n}, and the source has {n} words" in index
    assert "a.align has 41 lines but train has 40 pairs" in count
    assert f"{tmp_path / 'none'}: no such file" in missing
    assert not (tmp_path / "run").exists()


def test_links_in_shards_or_of_no_pairs_are_refused(tmp_path: Path) -> None:
    files = {**write_aligned_corpus(tmp_path, 40), "shards": True}
    with pytest.raises(DataError, match="in shards have no word links; set data"):
        prepare(files, tmp_path / "run")

    values = {"mix": [write_corpus(tmp_path, 9)], "alignments": "x"}
    message = "alignments link the words of source and target"

    with pytest.raises(ConfigurationError, match=message):
        CorpusSettings.parse(values, "the test")


def test_changed_links_are_reported(tmp_path: Path) -> None:
    run = tmp_path / "run"
    data = CorpusSettings.parse(write_aligned_corpus(tmp_path, 60), "the test")
    tokenizer = prepare_data(data, SIZES, BATCHING, 3, run).tokenizer

    assert describe_changes(data, run) == ()

    path = str(data.alignments)
    write_lines(path, ["0-0" if text else "" for text in read_lines(path)])
    (change,) = prepare_data(data, tokenizer, BATCHING, 3, run).changes

    assert change.startswith(f"train.alignments: {path} has changed since the run")

    (change,) = describe_changes(data.without_alignments(), run)
    assert "was there when the run began" in change
