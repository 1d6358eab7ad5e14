"""Tokenizers: decoding restores the text, words are those of the raw line, training is
deterministic.
"""

import io
import re
import unicodedata
from pathlib import Path

import pytest
import sentencepiece
from helpers.text_table import items, lines

from regard.common.errors import ConfigurationError, DataError, ModelFolderError
from regard.data.text import clean
from regard.data.tokenizer import Tokenizer, TokenizerSettings, choose_size
from regard.data.vocabulary import BOS, EOS, PAD, UNK

GERMAN = lines("""
    Ein Hund läuft über die grüne Wiese.
    Zwei Männer reden auf der Straße.
    Ein roter Ball liegt im Gras.
    Die Frau trägt einen großen Hut.
    Drei Kinder spielen am Strand.
    Der Junge springt ins Wasser.
    Ein Mann fährt mit dem Fahrrad.
    Viele Menschen warten auf den Zug.
    Das Mädchen liest ein Buch.
    Ein Vogel sitzt auf dem Dach.
""")
KOREAN = lines("""
    개가 푸른 풀밭을 달린다.
    두 남자가 길에서 이야기한다.
    빨간 공이 풀밭에 있다.
    여자가 큰 모자를 쓰고 있다.
    세 아이가 바닷가에서 논다.
    소년이 물에 뛰어든다.
    한 남자가 자전거를 탄다.
    많은 사람이 기차를 기다린다.
    소녀가 책을 읽는다.
    새가 지붕 위에 앉아 있다.
""")
TEXTS = [
    *GERMAN,
    *KOREAN,
    "😀 👩‍👩‍👧 🇩🇪ok",
    "सभी मनुष्य ሰላም ልዑል",
    "漢字かな 交じり文",
    "a\u00a0b  c\t d\u3000e",
    "▁ under_score ▁▁x",
    "<s> </s> <unk> <pad> <0x41> ⁇",
    "a\0b",
    "",
    "x" * 3000,
    unicodedata.normalize("NFD", KOREAN[0] + " " + GERMAN[0]),
]
EVERY = [
    TokenizerSettings(kind="bpe", joint=True, byte_fallback=True),
    TokenizerSettings(kind="bpe", joint=False, byte_fallback=False),
    TokenizerSettings(kind="unigram", joint=True, byte_fallback=False),
    TokenizerSettings(kind="unigram", joint=False, byte_fallback=True),
]


@pytest.fixture(
    scope="module", params=EVERY, ids=lambda s: f"{s.kind}-{s.joint}-{s.byte_fallback}"
)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(GERMAN, KOREAN, request.param)


def normalised(text: str) -> str:
    """Return a text as it is after encoding and decoding."""
    return clean(text).replace("▁", "_")


def test_decoding_restores_the_text(tokenizer: Tokenizer) -> None:
    for vocabulary, known in ((tokenizer.source, GERMAN), (tokenizer.target, KOREAN)):
        for text in TEXTS if tokenizer.settings.byte_fallback else known:
            ids = vocabulary.encode(text)
            assert vocabulary.decode(ids) == normalised(text)
            assert vocabulary.decode([BOS, *ids, EOS, PAD]) == normalised(text)
            assert vocabulary.encode(unicodedata.normalize("NFD", text)) == ids

        assert vocabulary.encode_all(TEXTS) == [
            vocabulary.encode(text) for text in TEXTS
        ]
        assert vocabulary.encode_all([]) == []


FORMS = [pair.split("=") for pair in items("""
    ａｂｃ１２=abc12 ﬁｘ=fix ﾊﾟｶﾞｶ=パガカ ﾡￂ=가 ㎏=kg ﺏ=ب ㈜=(주) ｗ=ｗ ｑ=ｑ …=… 10²=10² ①=① ½=½ ª=ª ™=™ ｶﾟ=カﾟ ﷺ=ﷺ
    👍🏽=👍🏽
""")]  # fmt: skip


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
@pytest.mark.parametrize("fallback", [True, False])
def test_letters_without_tokens_are_read_in_the_form_that_has_them(
    kind: str, fallback: bool
) -> None:
    """Full width ｗ has tokens, q has none in any width; raised and circled numbers would be other
    ones.
    """
    text = [*GERMAN, "abcfix kg A12 パガカ 가 주 ب ( ) … ｗ 。 ."]
    values = {"kind": kind, "byte_fallback": fallback, "character_coverage": 1.0}
    settings = TokenizerSettings.parse(values, "test")
    vocabulary = Tokenizer.train(text, text, settings).source

    for given, read in [*FORMS, ("𝐀 𝓫 𝟏", "A b 1")]:
        ids = vocabulary.encode(given)
        assert ids == vocabulary.encode(read)
        assert vocabulary.encode_all([given]) == [ids]
        assert vocabulary.unknown_share(given) == vocabulary.unknown_share(read)
        assert not fallback or vocabulary.decode(ids) == read

    letters = {i for i, byte in vocabulary.byte_tokens.items() if byte != b" "}
    assert {*vocabulary.encode("ａｂｃ")}.isdisjoint({UNK, *letters})


def test_word_indices_cover_the_words_of_the_line(tokenizer: Tokenizer) -> None:
    for vocabulary in (tokenizer.source, tokenizer.target):
        for text in TEXTS:
            tokens = vocabulary.tokens([BOS, *vocabulary.encode(text), EOS, PAD])
            first, *inner, end, pad = vocabulary.word_indices(tokens)

            assert first == end == pad == -1
            assert inner == sorted(inner)
            assert sorted(set(inner)) == list(range(len(clean(text).split()))), text


def test_special_tokens_have_fixed_ids(tokenizer: Tokenizer) -> None:
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert tokenizer.target.tokens(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert not {PAD, BOS, EOS} & set(tokenizer.target.encode("<s> </s> <unk> <pad>"))
    assert tokenizer.target.decode([PAD, BOS, UNK, EOS]) == "⁇"
    assert tokenizer.target.decode([]) == ""


def test_unknown_share_counts_characters(tokenizer: Tokenizer) -> None:
    vocabulary = tokenizer.source
    assert vocabulary.unknown_share(GERMAN[0]) == 0
    assert vocabulary.unknown_share("") == 0
    assert vocabulary.unknown_share("😀😀 सभी ሰላም") == 1
    assert vocabulary.unknown_share("Hund 漢字😀 ሰ") == pytest.approx(4 / 8)


def test_training_is_deterministic_and_a_saved_tokenizer_can_be_loaded(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    tokenizer.save(tmp_path)
    joint = tokenizer.settings.joint
    names = {"joint.model"} if joint else {"source.model", "target.model"}

    assert {entry.name for entry in tmp_path.iterdir()} == names
    for other in (
        Tokenizer.train(GERMAN, KOREAN, tokenizer.settings),
        Tokenizer.load(tmp_path, tokenizer.settings),
    ):
        assert other.source.model == tokenizer.source.model
        assert other.target.model == tokenizer.target.model
        assert (other.source is other.target) == joint


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    settings = TokenizerSettings(joint=False)
    Tokenizer.train(GERMAN, KOREAN, settings).save(tmp_path)
    path = tmp_path / "target.model"
    message = r"target\.model: damaged.*train the model again"

    for content in (path.read_bytes()[:-20], b"x" * 99, b""):
        path.write_bytes(content)
        with pytest.raises(ModelFolderError, match=message):
            Tokenizer.load(tmp_path, settings)

    message = r"joint\.model: cannot be read \(No such file"
    with pytest.raises(ModelFolderError, match=message):
        Tokenizer.load(tmp_path, TokenizerSettings())

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(GERMAN), model_writer=model, vocab_size=60, minloglevel=4
    )
    (tmp_path / "joint.model").write_bytes(model.getvalue())

    with pytest.raises(ModelFolderError, match="not a vocabulary that Regard made"):
        Tokenizer.load(tmp_path, TokenizerSettings())


# --- sizes


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(
    ("size", "message", "step"),
    [
        (9000, "9,000 tokens are more than the text of the source side.*at most ", 1),
        (5, "5 tokens are fewer than.*at least ", -1),
        (270, "270 tokens are fewer than.*at least ", -1),
    ],
)
def test_an_impossible_size_names_the_possible_one(
    kind: str, size: int, message: str, step: int, capfd: pytest.CaptureFixture[str]
) -> None:
    values = {"kind": kind, "joint": False, "size": size}
    settings = TokenizerSettings.parse(values, "test")

    with pytest.raises(ConfigurationError) as caught:
        Tokenizer.train(GERMAN, GERMAN, settings)

    stated = re.search(rf"{message}(\d+)", str(caught.value))
    assert stated is not None

    possible = int(stated[1])
    fits = settings.with_values(size=possible)

    assert len(Tokenizer.train(GERMAN, GERMAN, fits).source) == possible
    with pytest.raises(ConfigurationError):
        Tokenizer.train(GERMAN, GERMAN, fits.with_values(size=possible + step))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("texts", [["a"], ["ab " * 3, ""], ["x" * 10_000, "y z"]])
def test_tiny_and_odd_corpora_can_be_learnt_from(kind: str, texts: list[str]) -> None:
    settings = TokenizerSettings.parse({"kind": kind}, "test")
    vocabulary = Tokenizer.train(texts, texts, settings).source
    ids = vocabulary.encode(texts[0])

    assert vocabulary.decode(ids) == texts[0].strip()


def test_a_tokenizer_without_text_is_refused() -> None:
    with pytest.raises(DataError, match="there is no text to learn a vocabulary from"):
        Tokenizer.train(["", " "], [], TokenizerSettings())


def test_the_chosen_size_grows_slowly() -> None:
    settings = TokenizerSettings()
    without_bytes = settings.with_values(byte_fallback=False)

    assert choose_size(["ab" * 500], settings) == 2 + 4 + 256 + 500
    assert choose_size(["ab" * 500_000], settings) == 2 + 4 + 256 + 5000
    assert choose_size(["ab" * 500], without_bytes) == 2 + 4 + 500


@pytest.mark.parametrize("joint", [True, False])
def test_unknown_whitespace_tokens_are_words(joint: bool) -> None:
    numbers = [f"w{n % 40}" for n in range(210)]
    text = [" ".join(numbers[start : start + 9]) for start in range(0, 200, 3)]
    settings = TokenizerSettings(kind="whitespace", joint=joint, size=20)
    vocabulary = Tokenizer.train(text, text, settings).source
    tokens = vocabulary.tokens(range(len(vocabulary)))
    known = next(token[1:] for token in tokens if token.startswith("▁"))
    line = f"{known} foo bar {known} ｂaz"
    ids = vocabulary.encode(line)

    assert [index == UNK for index in ids] == [False, True, True, False, True]
    assert vocabulary.encode_all([line, ""]) == [ids, []]

    words = vocabulary.word_indices(vocabulary.tokens([BOS, *ids, EOS]))
    assert words == [-1, *range(5), -1]
    assert vocabulary.decode(ids) == f"{known} ⁇ ⁇ {known} ⁇"
    assert vocabulary.encode_all(vocabulary.detokenised([[*ids, EOS]])) == [ids]
    assert all(len(vocabulary.encode(line)) == 9 for line in text)
