"""Tokenizer: vocabularies of SentencePiece (BPE, unigram, char, whitespace) or of a plug-in,
trained, saved and loaded.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import sentencepiece
from pydantic import Field, ValidationInfo, field_validator

from regard.common.atomic import write_bytes
from regard.common.errors import ConfigurationError, DataError, ModelFolderError
from regard.common.plugins import check_recorded, plugin_of
from regard.common.reading import check_links, file_bytes
from regard.common.settings import VOCABULARY, Settings
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.marian_vocab import SPECIAL, PieceTable
from regard.data.plugin_vocabulary import TOKENIZERS, PluginVocabulary, train_plugin
from regard.data.vocabulary import (
    BOS,
    EOS,
    PAD,
    SPACE,
    UNK,
    Vocabulary,
    normalised_line,
    vocabulary_of,
)

_MAX_LINES = 2_000_000
"""Lines from which a vocabulary is learnt, at most."""
_REMEDY = "copy it again from where the model was trained, or train the model again"


class TokenizerSettings(Settings):
    """Settings of the tokenizer and of its training."""

    kind: Annotated[str, TOKENIZERS] = Field(
        "bpe",
        description="Algorithm that splits text into tokens; char: single characters; whitespace: "
        "split at spaces, as formulas are written (unseen tokens are unknown). "
        "subword_dropout has no effect on these two, nor on those of plug-ins.",
    )
    joint: bool = Field(
        True, description="One vocabulary for both sides, or one for each."
    )
    size: int | None = Field(
        None,
        ge=5,
        le=VOCABULARY,
        description="Tokens in each vocabulary, beside copy_tokens; chosen from the corpus if not "
        "given.",
    )
    byte_fallback: bool = Field(
        True,
        description="Encode characters never seen in training as bytes, not as unknown.",
    )
    character_coverage: float = Field(
        0.9999,
        gt=0,
        le=1,
        description="Share of the training text whose characters get tokens of their own.",
    )
    copy_tokens: int = Field(
        0,
        ge=0,
        le=len(COPY_CHARACTERS),
        description="Tokens that stand for placeholders, addresses, code and the like of a line; "
        "each comes back once.",
    )
    numbering: Literal["sentencepiece", "marian"] = Field(
        "sentencepiece",
        description="Numbering of token ids; marian: by a table beside the vocabularies, in "
        "imported models.",
    )
    plugins: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (),
        validate_default=True,
        description="plug-in that the tokenizer comes from, as name==version; written by training",
    )

    @field_validator("plugins")
    @classmethod
    def _record_plugins(
        cls, recorded: tuple[str, ...], info: ValidationInfo
    ) -> tuple[str, ...]:
        """Return the plug-in of the tokenizer, if it is the one that was recorded."""
        kind = info.data.get("kind")
        plugin = None if kind is None else plugin_of(TOKENIZERS[kind])
        used = () if plugin is None else (plugin,)
        check_recorded(recorded, used, is_complete=kind is not None)
        return used

    @property
    def copy_characters(self) -> str:
        """The characters of the copy tokens; empty if whole words are tokens."""
        return "" if self.kind == "whitespace" else COPY_CHARACTERS[: self.copy_tokens]

    @property
    def export_obstacles(self) -> list[str]:
        """The reason why only Regard with PyTorch can tokenise; empty if others can."""
        return [
            f"tokenizer.kind is {self.kind!r}, of the plug-in {plugin}, which only Python can run"
            for plugin in self.plugins
        ]


class Tokenizer:
    """The vocabularies of a model: one per side, or the same for both."""

    def __init__(
        self, source: Vocabulary, target: Vocabulary, settings: TokenizerSettings
    ) -> None:
        assert (source is target) == settings.joint or settings.numbering == "marian", (
            "a joint tokenizer has one vocabulary, any other has two, unless a table numbers the "
            "tokens of both"
        )
        self.source = source
        self.target = target
        self.settings = settings

    @classmethod
    def train(
        cls, sources: Sequence[str], targets: Sequence[str], settings: TokenizerSettings
    ) -> Tokenizer:
        """Learn the vocabularies from training text.

        The same text and settings give the same vocabularies, to the byte.
        """
        if settings.numbering != "sentencepiece":
            raise ConfigurationError(
                "tokenizer.numbering = 'marian' is for imported models; leave it out to learn a "
                "vocabulary"
            )
        source_lines = _sample_lines(sources)
        target_lines = _sample_lines(targets)
        if settings.joint:
            lines = [*source_lines, *target_lines]
            joint = _train(lines, settings, "both sides together")
            return cls(joint, joint, settings)
        source = _train(source_lines, settings, "the source side")
        target = _train(target_lines, settings, "the target side")
        return cls(source, target, settings)

    def sample(
        self, sources: Sequence[str], targets: Sequence[str], dropout: float, seed: int
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Encode both sides with subword regularisation; the seed determines all segmentations.

        BPE leaves out each merge with probability `dropout` (BPE-dropout, Provilkov et al. 2020).
        Unigram models draw a segmentation with its probability to the power of 1 − `dropout` (Kudo
        2018).
        """
        kind = self.settings.kind
        if kind not in ("bpe", "unigram"):  # a line has only one segmentation
            return self.source.encode_all(sources), self.target.encode_all(targets)
        source_ids = self.source.sample_all(sources, kind, dropout, seed)
        target_ids = self.target.sample_all(targets, kind, dropout, seed + 1)
        return source_ids, target_ids

    @property
    def copies(self) -> str:
        """The characters of the copy tokens that both vocabularies have."""
        return "".join(
            text for text in self.source.copy_ids if text in self.target.copy_ids
        )

    def copies_of(self, source: Sequence[int]) -> tuple[int, ...]:
        """Return the target ids of the copy tokens in a source, each once, in order."""
        if not self.source.copy_ids:
            return ()
        target_ids = {
            self.source.copy_ids[text]: self.target.copy_ids[text]
            for text in self.copies
        }
        copied = [target_ids[index] for index in source if index in target_ids]
        return tuple(dict.fromkeys(copied))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the vocabularies."""
        sides = (self.source, self.target)
        models = b"".join(side.model for side in sides)
        tables = b"".join(side.table.text for side in sides if side.table is not None)
        return hashlib.sha256(models + tables).hexdigest()

    def save(self, folder: str | Path) -> None:
        """Write the vocabularies into a model folder."""
        for name, content in self.files.items():
            write_bytes(Path(folder) / name, content)

    @property
    def files(self) -> dict[str, bytes]:
        """The content of each file of the vocabularies, by name."""
        sides = (self.source, self.target)
        files = {}
        # A joint vocabulary has one name for both sides.
        for name, side in zip(_model_names(self.settings), sides, strict=False):
            files[name] = side.model
        for name, side in zip(_table_names(self.settings), sides, strict=False):
            if side.table is not None:
                files[name] = side.table.text
        return files

    @classmethod
    def load(
        cls,
        folder: str | Path,
        settings: TokenizerSettings,
        digests: Mapping[str, str] | None = None,
        remedy: str = _REMEDY,
    ) -> Tokenizer:
        """Read the vocabularies of a model folder; `digests` are the expected SHA-256 of its files,
        by name.

        Raises ModelFolderError if a file is missing or damaged.
        """
        folder = Path(folder)
        table_names = _table_names(settings)
        model_names = _model_names(settings)
        contents = {
            name: _read(folder / name, digests, remedy)
            for name in (*table_names, *model_names)
        }
        tables = [_parse_table(folder / name, contents[name]) for name in table_names]
        vocabularies = []
        for side, name in enumerate(model_names):
            # A single table serves both sides.
            table = tables[min(side, len(tables) - 1)] if tables else None
            vocabularies.append(_parse(folder / name, contents[name], settings, table))
        return cls(vocabularies[0], vocabularies[-1], settings)


def choose_size(texts: Iterable[str], settings: TokenizerSettings) -> int:
    """Choose a vocabulary size for a text: its alphabet plus 50 · ∛(number of characters), and at
    most 32,000 in all.
    """
    characters: set[str] = set()
    length = 0
    for text in texts:
        length += len(text)
        characters.update(text)
    alphabet = len(characters) + len(SPECIAL) + (256 if settings.byte_fallback else 0)
    size = alphabet + round(50 * math.pow(length, 1 / 3))
    return max(alphabet + 1, min(32_000, size))


def _model_names(settings: TokenizerSettings) -> tuple[str, ...]:
    joint = settings.joint and settings.numbering == "sentencepiece"
    return ("joint.model",) if joint else ("source.model", "target.model")


def _table_names(settings: TokenizerSettings) -> tuple[str, ...]:
    if settings.numbering == "sentencepiece":
        return ()
    return ("vocab.json",) if settings.joint else ("vocab.json", "target_vocab.json")


def sampling_stride(lines: int) -> int:
    """Return the stride with which lines of a long text are sampled to train the vocabulary."""
    return 1 + max(0, lines - 1) // _MAX_LINES


def _sample_lines(texts: Sequence[str]) -> Sequence[str]:
    return texts[:: sampling_stride(len(texts))]


def _train(texts: Sequence[str], settings: TokenizerSettings, side: str) -> Vocabulary:
    lines = [line for line in map(normalised_line, texts) if line]
    if not lines:
        raise DataError(
            f"{side}: there is no text to learn a vocabulary from; give at least one sentence"
        )
    if settings.plugins:
        return train_plugin(settings.kind, lines, settings.size)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=map(str.encode, lines),
            model_writer=model,
            **_options(lines, settings),
        )
    except RuntimeError as problem:
        raise _size_error(str(problem), settings, side) from None
    return vocabulary_of(model.getvalue())


def _options(lines: Sequence[str], settings: TokenizerSettings) -> dict[str, Any]:
    """Return the options of SentencePiece's trainer."""
    is_whitespace = settings.kind == "whitespace"
    is_size_given = settings.size is not None
    takes_all = settings.kind in ("char", "whitespace") and not is_size_given
    copies = settings.copy_characters
    return {
        "model_type": "word" if is_whitespace else settings.kind,
        "vocab_size": (settings.size or choose_size(lines, settings)) + len(copies),
        # A chosen size may be lowered to what the corpus allows, a given one may not.
        "hard_vocab_limit": is_size_given,
        "use_all_vocab": takes_all,
        "byte_fallback": settings.byte_fallback and not is_whitespace,
        "character_coverage": settings.character_coverage,
        # The space gets a token even if it is rare, because its byte is not decoded as a space.
        "required_chars": "" if is_whitespace else SPACE,
        "normalization_rule_name": "identity",  # `clean` normalises
        "max_sentence_length": 2**30,
        # The number is fixed because it affects the result: threads split the sums of floats.
        "num_threads": 4,
        "minloglevel": 4,
        "user_defined_symbols": [*copies],
        "unk_surface": "⁇",
        "pad_id": PAD,
        "unk_id": UNK,
        "bos_id": BOS,
        "eos_id": EOS,
    }


def _size_error(
    problem: str, settings: TokenizerSettings, side: str
) -> DataError | ConfigurationError:
    """Return the exception for a RuntimeError of SentencePiece's trainer with this message."""
    start = "tokenizer:"
    if settings.size:
        start = f"tokenizer.size: {settings.size:,} tokens are"
    copies = len(settings.copy_characters)
    too_large = re.search(r"value <= (\d+)", problem)
    if too_large:
        largest = int(too_large[1]) - copies
        return ConfigurationError(
            f"{start} more than the text of {side} can fill; the largest possible size is "
            f"{largest:,}: set tokenizer.size to at most {largest}, or leave it out"
        )
    too_small = re.search(r"(\d+) vs (\d+)", problem)
    if too_small:
        smallest = int(too_small[2]) - copies
        return ConfigurationError(
            f"{start} fewer than the characters of {side} need; the smallest possible size is "
            f"{smallest:,}: set tokenizer.size to at least {smallest}, lower "
            "tokenizer.character_coverage, or leave the size out"
        )
    return DataError(
        f"{side}: SentencePiece could not learn a vocabulary ({problem.strip()}); check the text"
    )


def _read(path: Path, digests: Mapping[str, str] | None, remedy: str) -> bytes:
    """Read a file of the model folder, and check its SHA-256 if `digests` are given."""
    check_links(path.parent, path.name)
    try:
        content = file_bytes(path)
    except OSError as problem:
        raise ModelFolderError(
            f"{path}: cannot be read ({problem.strerror}); {_REMEDY}"
        ) from None
    if not content:
        raise ModelFolderError(f"{path}: damaged, it is empty; {_REMEDY}")
    if digests is not None:
        digest = hashlib.sha256(content).hexdigest()
        if digest != digests.get(path.name):
            raise ModelFolderError(
                f"{path}: damaged or changed (it does not match its SHA-256 in config.json); "
                f"{remedy}"
            )
    return content


def _parse_table(path: Path, content: bytes) -> PieceTable:
    try:
        return PieceTable.parse(content)
    except ValueError as problem:
        raise ModelFolderError(f"{path}: damaged, {problem}; {_REMEDY}") from None


def _parse(
    path: Path, content: bytes, settings: TokenizerSettings, table: PieceTable | None
) -> Vocabulary:
    try:
        if settings.plugins:
            return PluginVocabulary(content, settings.kind)
        vocabulary = vocabulary_of(content, table)
    except ValueError:
        raise ModelFolderError(
            f"{path}: damaged, not a vocabulary of the tokenizer {settings.kind!r}; {_REMEDY}"
        ) from None
    if len(vocabulary) <= EOS or vocabulary.tokens(range(4)) != [*SPECIAL]:
        raise ModelFolderError(
            f"{path}: damaged, or not a vocabulary that Regard made; {_REMEDY}"
        )
    return vocabulary
