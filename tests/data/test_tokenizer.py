"""Tokenizers: decoding restores the text, words are those of the raw line, training is
deterministic.
"""

import io
import pickle
import unicodedata
from pathlib import Path

import pytest
import sentencepiece

from regard.common.errors import ConfigurationError, DataError, ModelFolderError
from regard.data.text import clean
from regard.data.tokenizer import Tokenizer, TokenizerSettings, choose_size
from regard.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

GERMAN = [
    "Ein Hund läuft über die grüne Wiese.",
    "Zwei Männer reden auf der Straße.",
    "Ein roter Ball liegt im Gras.",
    "Die Frau trägt einen großen Hut.",
    "Drei Kinder spielen am Strand.",
    "Der Junge springt ins Wasser.",
    "Ein Mann fährt mit dem Fahrrad.",
    "Viele Menschen warten auf den Zug.",
    "Das Mädchen liest ein Buch.",
    "Ein Vogel sitzt auf dem Dach.",
]
KOREAN = [
    "개가 푸른 풀밭을 달린다.",
    "두 남자가 길에서 이야기한다.",
    "빨간 공이 풀밭에 있다.",
    "여자가 큰 모자를 쓰고 있다.",
    "세 아이가 바닷가에서 논다.",
    "소년이 물에 뛰어든다.",
    "한 남자가 자전거를 탄다.",
    "많은 사람이 기차를 기다린다.",
    "소녀가 책을 읽는다.",
    "새가 지붕 위에 앉아 있다.",
]
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
    TokenizerSettings(kind=kind, joint=joint, byte_fallback=fallback)
    for kind in ("bpe", "unigram")
    for joint in (True, False)
    for fallback in (True, False)
]


@pytest.fixture(scope="module", params=EVERY, ids=lambda s: f"{s.kind}-{s.joint}-{s.byte_fallback}")
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


def test_bytes_that_form_no_character_are_left_out() -> None:
    vocabulary = Tokenizer.train(GERMAN, GERMAN, TokenizerSettings()).target
    c3, b6, e2, ed, a0 = vocabulary.ids(f"<0x{byte}>" for byte in ("C3", "B6", "E2", "ED", "A0"))
    d = vocabulary.encode("D")[-1]
    for ids, text in (
        ([d, c3], "D"), ([c3, d, b6], "D"), ([e2, c3, b6], "ö"), ([ed, a0, b6, c3, BOS, b6], "ö"),
        ([c3, UNK, b6], "⁇"), ([*vocabulary.encode("a\ufffdb"), e2], "a\ufffdb"),
    ):  # fmt: skip
        assert vocabulary.decode(ids) == text


FORMS = {
    "ａｂｃ１２": "abc12", "𝐀 𝓫 𝟏": "A b 1", "ﬁｘ": "fix", "ﾊﾟｶﾞｶ": "パガカ", "ﾡￂ": "가", "㎏": "kg", "ﺏ": "ب", "㈜": "(주)",
    "ｗ": "ｗ", "ｑ": "ｑ", "…": "…", "10² ① ½ ª ™": "10² ① ½ ª ™", "ｶﾟ": "カﾟ", "ﷺ": "ﷺ", "👍🏽": "👍🏽",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
@pytest.mark.parametrize("fallback", [True, False])
def test_letters_without_tokens_are_read_in_the_form_that_has_them(
    kind: str, fallback: bool
) -> None:
    """Full width ｗ has tokens, q has none in any width; raised and circled numbers would be other
    ones.
    """
    text = [*GERMAN, "abcfix kg A12 パガカ 가 주 ب ( ) … ｗ 。 ."]
    settings = TokenizerSettings.parse(
        {"kind": kind, "byte_fallback": fallback, "character_coverage": 1.0}, "test"
    )
    vocabulary = Tokenizer.train(text, text, settings).source
    for given, read in FORMS.items():
        ids = vocabulary.encode(given)
        assert (ids, vocabulary.encode_all([given])) == (vocabulary.encode(read), [ids])
        assert vocabulary.unknown_share(given) == vocabulary.unknown_share(read)
        if fallback:
            assert vocabulary.decode(ids) == read
    assert {*vocabulary.encode("ａｂｃ")}.isdisjoint(
        {UNK, *(i for i, byte in vocabulary.byte_tokens.items() if byte != b" ")}
    )
    with_words = Tokenizer.train(text, text, TokenizerSettings(kind="whitespace")).source
    assert with_words.encode("ｋｇ kg") == [UNK, *with_words.encode("kg")]


def test_word_indices_cover_the_words_of_the_line(tokenizer: Tokenizer) -> None:
    for vocabulary in (tokenizer.source, tokenizer.target):
        for text in TEXTS:
            tokens = vocabulary.tokens([BOS, *vocabulary.encode(text), EOS, PAD])
            words = vocabulary.word_indices(tokens)
            assert (words[0], words[-2:]) == (-1, [-1, -1])
            inner = words[1:-2]
            assert inner == sorted(inner)
            assert sorted(set(inner)) == list(range(len(clean(text).split()))), text


def test_each_word_consists_of_its_tokens(tokenizer: Tokenizer) -> None:
    for text in GERMAN:
        tokens = tokenizer.source.tokens(tokenizer.source.encode(text))
        words = tokenizer.source.word_indices(tokens)
        for number, word in enumerate(text.split(" ")):
            tokens_of_word = [
                token for token, index in zip(tokens, words, strict=True) if index == number
            ]
            assert "".join(tokens_of_word) == "▁" + word


def test_unusual_tokens_have_word_indices() -> None:
    vocabulary = Tokenizer.train(GERMAN, GERMAN, TokenizerSettings()).source
    assert vocabulary.word_indices(["a", "▁", "▁b", "</s>"]) == [0, 1, 1, -1]
    assert vocabulary.word_indices(["▁a", "▁", "</s>"]) == [0, -1, -1]
    assert vocabulary.word_indices(["▁", "▁"]) == [-1, -1]
    assert vocabulary.word_indices(["<0xED>", "<0x20>", "<0xED>", "<unk>"]) == [0, 1, 1, 1]
    assert vocabulary.word_indices([]) == []


def test_unicode_normal_forms_have_the_same_ids(tokenizer: Tokenizer) -> None:
    for vocabulary, text in ((tokenizer.source, GERMAN[0]), (tokenizer.target, KOREAN[0])):
        assert vocabulary.encode(unicodedata.normalize("NFD", text)) == vocabulary.encode(text)


def test_encode_all_equals_encode(tokenizer: Tokenizer) -> None:
    assert tokenizer.source.encode_all(TEXTS) == [tokenizer.source.encode(text) for text in TEXTS]
    assert tokenizer.source.encode_all([]) == []


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


def test_training_is_deterministic(tokenizer: Tokenizer) -> None:
    retrained = Tokenizer.train(GERMAN, KOREAN, tokenizer.settings)
    assert retrained.source.model == tokenizer.source.model
    assert retrained.target.model == tokenizer.target.model
    assert (retrained.source is retrained.target) == tokenizer.settings.joint


def test_a_saved_tokenizer_can_be_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    names = {"joint.model"} if tokenizer.settings.joint else {"source.model", "target.model"}
    assert {entry.name for entry in tmp_path.iterdir()} == names
    loaded = Tokenizer.load(tmp_path, tokenizer.settings)
    assert loaded.source.model == tokenizer.source.model
    assert loaded.target.model == tokenizer.target.model
    assert (loaded.source is loaded.target) == tokenizer.settings.joint


def test_a_vocabulary_can_be_pickled(tokenizer: Tokenizer) -> None:
    copy: Vocabulary = pickle.loads(pickle.dumps(tokenizer.target))
    assert copy.encode_all(TEXTS) == tokenizer.target.encode_all(TEXTS)


@pytest.mark.parametrize("damaged", ["empty", "foreign", "cut"])
def test_a_damaged_file_is_named(tmp_path: Path, damaged: str) -> None:
    settings = TokenizerSettings(joint=False)
    Tokenizer.train(GERMAN, KOREAN, settings).save(tmp_path)
    whole = (tmp_path / "target.model").read_bytes()
    (tmp_path / "target.model").write_bytes(
        {"empty": b"", "foreign": b"x" * 99, "cut": whole[:-20]}[damaged]
    )
    with pytest.raises(ModelFolderError, match=r"target\.model: damaged.*train the model again"):
        Tokenizer.load(tmp_path, settings)
    with pytest.raises(ModelFolderError, match=r"joint\.model: cannot be read \(No such file"):
        Tokenizer.load(tmp_path, TokenizerSettings())


def test_a_foreign_model_is_refused(tmp_path: Path) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(GERMAN), model_writer=model, vocab_size=60, minloglevel=4
    )
    (tmp_path / "joint.model").write_bytes(model.getvalue())
    with pytest.raises(ModelFolderError, match="not a vocabulary that Regard made"):
        Tokenizer.load(tmp_path, TokenizerSettings())


# --- sizes


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_an_impossible_size_names_the_possible_one(
    kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = TokenizerSettings.parse({"kind": kind, "joint": False, "size": 9000}, "test")
    with pytest.raises(
        ConfigurationError, match=r"9,000 tokens are more than the text of the source side"
    ) as caught:
        Tokenizer.train(GERMAN, KOREAN, settings)
    largest = int(str(caught.value).split("at most ")[1].split(",")[0])
    fits = settings.with_values(size=largest)
    assert len(Tokenizer.train(GERMAN, GERMAN, fits).source) == largest
    with pytest.raises(ConfigurationError):
        Tokenizer.train(GERMAN, GERMAN, settings.with_values(size=largest + 1))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("size", [5, 100, 270])
def test_a_size_below_the_alphabet_names_the_smallest(kind: str, size: int) -> None:
    settings = TokenizerSettings.parse({"kind": kind, "size": size}, "test")
    with pytest.raises(ConfigurationError, match=f"{size} tokens are fewer than") as caught:
        Tokenizer.train(GERMAN, GERMAN, settings)
    smallest = int(str(caught.value).split("at least ")[1].split(",")[0])
    assert (
        len(Tokenizer.train(GERMAN, GERMAN, settings.with_values(size=smallest)).source) == smallest
    )


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("texts", [["a"], ["a"] * 50, ["ab " * 3, ""], ["x" * 30_000, "y z"]])
def test_tiny_and_odd_corpora_can_be_learnt_from(kind: str, texts: list[str]) -> None:
    tokenizer = Tokenizer.train(texts, texts, TokenizerSettings.parse({"kind": kind}, "test"))
    assert tokenizer.source.decode(tokenizer.source.encode(texts[0])) == texts[0].strip()


def test_special_tokens_in_training_text_are_plain_text() -> None:
    texts = ["<unk> <s> </s> <pad> <0x41> a ▁ ▅ b"] * 50
    vocabulary = Tokenizer.train(texts, GERMAN, TokenizerSettings()).source
    assert vocabulary.decode(vocabulary.encode(texts[0])) == normalised(texts[0])


def test_a_tokenizer_without_text_is_refused() -> None:
    with pytest.raises(DataError, match="there is no text to learn a vocabulary from"):
        Tokenizer.train(["", " "], [], TokenizerSettings())


def test_the_chosen_size_grows_slowly() -> None:
    settings = TokenizerSettings()
    assert choose_size(["ab" * 500], settings) == 2 + 4 + 256 + 500
    assert choose_size(["ab" * 500_000], settings) == 2 + 4 + 256 + 5000
    assert choose_size(["ab" * 500], settings.with_values(byte_fallback=False)) == 2 + 4 + 500
    tokenizer = Tokenizer.train(GERMAN, KOREAN, settings)
    assert len(tokenizer.source) <= choose_size(GERMAN + KOREAN, settings)


@pytest.mark.parametrize("joint", [True, False])
def test_unknown_whitespace_tokens_are_words(joint: bool) -> None:
    lines = [" ".join(f"w{n % 40}" for n in range(start, start + 9)) for start in range(0, 200, 3)]
    vocabulary = Tokenizer.train(
        lines, lines, TokenizerSettings(kind="whitespace", joint=joint, size=20)
    ).source
    known = next(
        token[1:] for token in vocabulary.tokens(range(len(vocabulary))) if token.startswith("▁")
    )
    line = f"{known} foo bar {known} baz"
    ids = vocabulary.encode(line)
    assert [index == UNK for index in ids] == [False, True, True, False, True]
    assert vocabulary.encode_all([line, ""]) == [ids, []]
    assert vocabulary.word_indices(vocabulary.tokens([BOS, *ids, EOS])) == [-1, 0, 1, 2, 3, 4, -1]
    assert vocabulary.decode(ids) == f"{known} ⁇ ⁇ {known} ⁇"
    assert vocabulary.encode_all(vocabulary.detokenised([[*ids, EOS]])) == [ids]
    for text in lines:
        assert len(vocabulary.encode(text)) == 9
        if UNK not in vocabulary.encode(text):
            assert vocabulary.decode(vocabulary.encode(text)) == text
