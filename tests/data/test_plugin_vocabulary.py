"""Tokenizers of plug-ins: text comes back, and what a wrong one does is a sentence with its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from data.test_tokenizer import GERMAN, KOREAN, TEXTS
from helpers.forgotten_plugins import forgotten_plugins
from test_plugins import (
    _without_plugins,  # noqa: F401 (a fixture)
    folder,
    refused,
)

import regard
from regard.common.errors import (
    ConfigurationError,
    ModelFolderError,
    PluginError,
    UsageError,
)
from regard.common.plugins import import_named
from regard.data.text import clean
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS
from regard.search import Constraints

JAMO = Path(__file__).parents[2] / "examples/jamo.py"
OWN = """
import regard

@regard.register_tokenizer("own")
class Own:
    def __init__(self, tokens):
        self.tokens = tokens

    @classmethod
    def train(cls, lines, size):
        return cls(sorted(set("".join(lines))))

    def encode(self, text):
        return [self.tokens.index(character) for character in text]

    def decode(self, ids):
        return "".join(self.tokens[index] for index in ids)
"""
LEARNT = 'sorted(set("".join(lines)))'
TRAINING = {
    "tokenizer.kind": "jamo",
    "data.max_ratio": 50.0,
    "batching.tokens": 400,
    "schedule.peak": 0.01,
    "schedule.warmup": 10,
    "training.updates": 70,
    "model.encoder.size": 32,
    "model.encoder.dropout": 0.0,
    "model.decoder.size": 32,
    "model.decoder.dropout": 0.0,
}


def trained(kind: str, **values: object) -> Tokenizer:
    settings = TokenizerSettings.parse({"kind": kind, **values}, "here")
    return Tokenizer.train(KOREAN, GERMAN, settings)


def plugin(folder: Path, right: str = "", wrong: str = "") -> None:
    """Import the plug-in `own`, in which something is wrong."""
    assert right in OWN
    path = folder / "own.py"
    path.write_text(OWN.replace(right, wrong) if right else OWN + wrong, "utf-8")
    import_named([str(path)])


def jamo_of(syllable: str) -> list[str]:
    """Take a syllable apart by the arithmetic of the Unicode standard, section 3.12."""
    number = ord(syllable) - 0xAC00
    last = [chr(0x11A7 + number % 28)] if number % 28 else []
    return [chr(0x1100 + number // 588), chr(0x1161 + number % 588 // 28), *last]


@pytest.mark.parametrize("joint", [True, False])
def test_text_comes_back_from_jamo(tmp_path: Path, joint: bool) -> None:
    import_named([str(JAMO)])
    tokenizer = trained("jamo", joint=joint)
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path, tokenizer.settings)
    assert (loaded.source is loaded.target) == joint
    texts = [*TEXTS, "각 ᆨ 가ᅡ"]
    sides = (tokenizer.source, loaded.source), (tokenizer.target, loaded.target)
    for before, after in sides:
        rows = before.encode_all(texts)
        assert rows == after.encode_all(texts)
        for text, row in zip(texts, rows, strict=True):
            assert after.decode([*row, EOS]) == clean(text).replace("▁", "_")
            assert after.ids(after.tokens(row)) == row
        assert after.detokenised(rows[:3]) == texts[:3]


def test_jamo_are_those_of_the_standard() -> None:
    import_named([str(JAMO)])
    vocabulary = trained("jamo", size=330).source
    assert len(vocabulary) == 4 + 330
    for syllable in map(chr, range(0xAC00, 0xD7A4, 7)):
        assert vocabulary.tokens(vocabulary.encode(syllable)) == jamo_of(syllable)
    tokens = vocabulary.tokens([*vocabulary.encode("나는 간다"), EOS])
    assert vocabulary.word_indices(tokens) == [0] * 5 + [1] * 6 + [-1]


@pytest.mark.parametrize(
    ("right", "wrong", "cause"),
    [
        ("def train(", "def learn(", "train: AttributeError"),
        (LEARNT, "['a', 'a']", "train: .*distinct"),
        (LEARNT, "['<unk>']", "train: .*distinct"),
        (LEARNT, "[7]", "train: .*distinct"),
        (LEARNT, "['\\ud800']", "train: UnicodeEncodeError"),
        (LEARNT, "[]", "train: .*distinct"),
        ("self.tokens = tokens", "1 / 0", "train: ZeroDivisionError"),
        ("in text]", "in text + '~']", "encode of '개가.*ValueError"),
        ("in text]", "in text] + [-1]", r"wanted ids from 0 to \d+, got -1"),
        ("in text]", "in text] + [999]", "wanted ids from 0 to .*999"),
        ("in text]", "in text] + [None]", "encode of '개가.*TypeError"),
        ("in text]", "in text[1:]]", "encode of '개가.*another text, '가 푸"),
        ('return "".join', "return 1 / 0, ", r"decode of \[.*ZeroDivisionError"),
        ('return "".join', "", "encode of '개가.*another text, 'None'"),
    ],
)
def test_a_wrong_tokenizer_is_a_sentence_with_its_name(
    tmp_path: Path, right: str, wrong: str, cause: str
) -> None:
    plugin(tmp_path, right, wrong)
    start = r"plug-in own==sha256:\w{12}…: tokenizer 'own', "
    with pytest.raises(PluginError, match=f"^{start}.*{cause}.*; mend it there$"):
        trained("own").source.encode_all(KOREAN)


def test_a_folder_imports_no_tokenizer_that_nobody_named(tmp_path: Path) -> None:
    with forgotten_plugins():
        (tmp_path / "spelling.py").write_text(OWN, "utf-8")
        import_named([str(tmp_path / "spelling.py")])
        made = folder(tmp_path / "made", score="dot", kind="own")
    assert not refused(made, "spelling")


def test_a_recorded_tokenizer_is_refused_without_its_plugin(tmp_path: Path) -> None:
    with forgotten_plugins():
        plugin(tmp_path)
        recorded = trained("own").settings.model_dump()
    with pytest.raises(ConfigurationError, match=r"own==sha256.*--plugin own"):
        TokenizerSettings.parse(recorded, "here")
    plugin(tmp_path, wrong="# another version")
    with pytest.raises(ConfigurationError, match=r"own==sha256.*and this is own=="):
        TokenizerSettings.parse(recorded, "here")


def test_a_damaged_list_of_tokens_is_refused(tmp_path: Path) -> None:
    plugin(tmp_path)
    for content in (b"{}", b"[1]", b'["a", "a"]', b"[", b"\xff"):
        (tmp_path / "joint.model").write_bytes(content)
        with pytest.raises(ModelFolderError, match=r"joint\.model: damaged"):
            Tokenizer.load(tmp_path, trained("own").settings)


def test_a_model_of_jamo_learns_and_translates(tmp_path: Path) -> None:
    import_named([str(JAMO)])
    run = regard.train(
        pairs=[("ein Baum", "나무"), ("ein Fluss", "강")] * 15,
        valid_pairs=[("ein Baum", "나무"), ("ein Fluss", "강")],
        preset="rnn-bahdanau",
        settings=TRAINING,
        out=tmp_path / "run",
        threads=1,
    )
    translator = run.load()
    together = translator.translate(["ein Fluss", "ein Baum"], beam=3)
    assert [translation.text for translation in together] == ["강", "나무"]
    for constraints in (Constraints(terms=("개",)), Constraints(forbid=("개",))):
        with pytest.raises(UsageError, match="is of a plug-in"):
            translator.translate(["ein Baum"], constraints=constraints)
    with pytest.raises(UsageError, match=r"tokenizer\.kind is 'jamo'"):
        regard.load(tmp_path / "run", engine="library").translate("ein Baum")
