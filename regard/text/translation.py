"""The result of translating a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.attention.alignment_choice import DEFAULT_SYMMETRY
from regard.attention.alignment_choice import AlignmentChoice as AlignmentChoice
from regard.common.arguments import TEXT, WHOLE, describe, excerpt, problems_of_types
from regard.common.errors import UsageError
from regard.data.given_words import GivenWords, to_given
from regard.data.sentences import has_spaces

if TYPE_CHECKING:
    from regard.attention.alignment import Link, Readings
    from regard.text.doubtful_sentences import DoubtfulSentences
    from regard.text.quality import Trust


SHOWN = 20
"""Maximum number of objects of the wrong type that an error lists one by one."""
SPLIT = (
    "the line is split, and its parts are translated by themselves; give one sentence, or a "
    "shorter one"
)
"""Message of the error that the search of a line cannot be recorded."""


class TranslatedPart(NamedTuple):
    """A sentence of a line, or a part of a long sentence, with its translation.

    A part without letters is copied, with score 0.
    """

    source: str
    text: str
    score: float
    # The quality is low, or the text is unlike the training data.
    doubtful: bool = False
    # Probability that the translation is good; None if the model is not calibrated.
    quality: float | None = None


@dataclass(frozen=True)
class Translation:
    """The translation of one line.

    - `tokens`: its subword units, as text.
    - `score`: log-probability over the length penalty; for a line that was split, the sum over
      `parts`.
    - `alignments`: links (source word, target word), on request. Source words are separated by
      spaces in the line as given.
    - `readings`: attention weights and the words they belong to, on request; None if the line was
      split.
    - `nbest`: the hypotheses, best first, if more than one was asked for.
    - `repetition`: a text that the translation keeps repeating, and how often, which indicates
      failure.
    - `broken`: code or numbers of the line are lost or altered, where its contract is to be kept.
      Sentences whose code would be broken stand as they were. `fault` says by what, in short.
    - `markup`: the translation of a sentence of HTML or XML with its marks, if these were placed
      when it was translated.
    - `notes`: remarks in sentences, such as that the line was split or has lost a placeholder.
    - `ids`, `log_probs`: the token ids of the model's output and their log-probabilities, if
      available.
    - `source_tokens`: the subword units that the model has read, including the end of sentence.
    """

    text: str
    tokens: tuple[str, ...]
    score: float
    alignments: tuple[Link, ...] | None = None
    readings: Readings | None = None
    nbest: tuple[Translation, ...] = ()
    repetition: tuple[str, int] | None = None
    parts: tuple[TranslatedPart, ...] = ()
    doubtful: bool = False  # if a part is doubtful
    # All required terms are present, and the model has placed the copy tokens itself.
    is_complete: bool = True
    notes: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    source_tokens: tuple[str, ...] = ()
    broken: bool = False
    fault: str = ""
    markup: str | None = None

    @property
    def quality(self) -> float | None:
        """Probability that the translation is good, that of its worst part; None if unknown."""
        known = [part.quality for part in self.parts if part.quality is not None]
        return min(known, default=None)

    def with_given_words(self, words: GivenWords) -> Translation:
        """Return the translation with links to the words of the line as it was given."""
        if words.is_clean or self.alignments is None:
            return self
        ranked = tuple(hypothesis.with_given_words(words) for hypothesis in self.nbest)
        return replace(
            self, alignments=tuple(to_given(self.alignments, words)), nbest=ranked
        )

    def with_doubts(self, doubts: DoubtfulSentences, trust: Trust) -> Translation:
        """Return the translation, and its hypotheses, with doubtful parts marked, and the quality
        of each; it is doubtful if a part is.
        """
        parts = [
            TranslatedPart(*part[:3], *doubts.judge(*part[:3], trust))
            for part in self.parts
        ]
        return replace(
            self,
            parts=tuple(parts),
            doubtful=any(part.doubtful for part in parts),
            nbest=tuple(result.with_doubts(doubts, trust) for result in self.nbest),
        )

    def __repr__(self) -> str:
        return f"Translation({self.text!r}, score={self.score:.3f})"

    def _repr_html_(self) -> str:
        return result_html(self.text, self.score, self.readings)


def as_texts(texts: object) -> list[str]:
    """Return a text or several texts as a list. Raises UsageError, with all causes, for other
    objects.
    """
    if isinstance(texts, Mapping) or (
        not isinstance(texts, str) and getattr(texts, "ndim", 1) != 1
    ):
        raise UsageError(
            f"texts: wanted a text or a list of texts, got {describe(texts)}; give its texts in "
            "one list"
        )
    items: list[Any]
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        items = [texts]
    else:
        items = list(texts)
    wrong = [
        (number, item)
        for number, item in enumerate(items, 1)
        if not isinstance(item, str)
    ]
    causes = [
        f"text {number} is {excerpt(item)}; give texts"
        for number, item in wrong[:SHOWN]
    ]
    if len(wrong) > SHOWN:
        causes.append(f"… and {len(wrong) - SHOWN:,} more")
    UsageError.raise_all(causes)
    return items


def as_text(text: object, name: str = "") -> str:
    """Return one text. Raises UsageError for other objects.

    `name` is the name of the argument if it is not the source.
    """
    if name:
        UsageError.raise_all(problems_of_types(TEXT, {name: text}))
    return as_texts([text])[0]


def as_token_ids(ids: object, vocabulary: Sized, name: str = "target") -> list[int]:
    """Return token ids as integers. Raises UsageError for ids that the vocabulary does not have."""
    wanted = f"`{name}=`: wanted a text, or token ids from 0 to {len(vocabulary) - 1:,}"
    if (
        isinstance(ids, (bytes, Mapping))
        or not isinstance(ids, Iterable)
        or getattr(ids, "ndim", 1) != 1
    ):
        raise UsageError(f"{wanted}, got {describe(ids)}")
    items = [item.item() if hasattr(item, "item") else item for item in ids]
    for item in items:
        if not WHOLE.holds(item) or not 0 <= item < len(vocabulary):
            raise UsageError(f"{wanted}, got {describe(item)} among them")
    return [int(item) for item in items]


def as_rows_of_ids(rows: Any, vocabulary: Sized) -> list[list[int]]:
    """Return several targets as token ids. Raises UsageError for other objects."""
    try:
        targets = list(rows)
    except TypeError:
        raise UsageError(
            f"`targets=`: wanted a list of token ids for each source, got {describe(rows)}"
        ) from None
    return [as_token_ids(target, vocabulary, "targets") for target in targets]


def group_by_word(ids: Sequence[int], words: Sequence[int]) -> list[list[int]]:
    """Return the token ids of each word, given the word index of each token (−1: of none)."""
    ids_of_words: list[list[int]] = [[] for _ in range(max(words, default=-1) + 1)]
    for token_id, word in zip(ids, words, strict=True):
        if word >= 0:
            ids_of_words[word].append(token_id)
    return ids_of_words


def check_nbest(nbest: Any, beam: int) -> None:
    """Raise UsageError unless a search with this beam has `nbest` hypotheses."""
    if not (WHOLE.holds(nbest) and 1 <= nbest <= beam):
        got = nbest if WHOLE.holds(nbest) else describe(nbest)
        raise UsageError(
            f"nbest: wanted 1 to {beam} (the beam), got {got}; lower it, or widen the beam"
        )


def check_readings(readings: object) -> None:
    """Raise UsageError unless the argument is attention readings."""
    from regard.attention.alignment import Readings

    if not isinstance(readings, Readings):
        raise UsageError(
            f"`readings=`: wanted attention readings, got {describe(readings)}; give those of a "
            "translation: translate(…, readings=True)[0].readings"
        )


def result_html(text: str, score: float, readings: Readings | None) -> str:
    """Return a result as HTML for a notebook: text, score and, if recorded, attention weights."""
    from html import escape

    weights = "" if readings is None else readings._repr_html_()
    return f"<p>{escape(text)} <small>{score:.3f}</small></p>{weights}"


def last_layer(readings: Readings) -> AlignmentChoice:
    """Return the choice of the mean over the last layer's heads.

    Raises UsageError if there is no attention.
    """
    check_readings(readings)
    layers = readings.layers()
    if not layers:
        raise UsageError(
            "this model has no attention (model.decoder.kind = no_attention), so it has no "
            "alignments to extract or draw; use a model with attention, such as the preset "
            "rnn-bahdanau"
        )
    return AlignmentChoice(layers[-1], None, False)


def default_choice(readings: Readings) -> AlignmentChoice:
    """Return the default choice for word links: both directions of the mean over the heads of the
    middle layer, whose weights are the closest to alignments. Captions have the last layer.

    Raises UsageError if there is no attention.
    """
    last = last_layer(readings)
    if readings.grid is not None:
        return last
    model, _, _ = last.layer.partition("decoder.")  # of an ensemble, the last one
    layers = [name for name in readings.layers() if name.startswith(model)]
    middle = layers[len(layers) // 2]
    return AlignmentChoice(middle, None, False, DEFAULT_SYMMETRY)


def hypotheses_at(parts: Sequence[Translation], rank: int) -> list[Translation]:
    """Return the hypothesis of each part at a rank; of a part with fewer, its last one."""
    ranked = [part.nbest or (part,) for part in parts]
    return [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in ranked]


def join_parts(
    parts: Sequence[Translation],
    sources: Sequence[str],
    alignments: bool,
    code_words: int = 0,
) -> Translation:
    """Join the translations of the parts of one line; links count the words of the entire line.

    `sources` are the texts of the parts, which together are the line. Each part but the first was
    read after a language code of `code_words` words. If the sources of two parts are not separated
    by a space, their translations are if their scripts use spaces.
    """
    links = list[tuple[int, int]]()
    joined = ""
    first_source_word = 0
    repeated_words = 0  # of the language code
    for before, part, text in zip(("", *sources), parts, sources, strict=False):
        if (
            joined
            and part.text
            and (before.endswith(" ") or has_spaces(joined[-1], part.text[0]))
        ):
            joined += " "
        first_target_word = joined.count(" ")
        links += [
            (source - repeated_words + first_source_word, target + first_target_word)
            for source, target in part.alignments or ()
            if source >= repeated_words
        ]
        first_source_word += text.count(" ")
        joined += part.text
        repeated_words = code_words

    nbest = list[Translation]()
    for rank in range(max((len(part.nbest) for part in parts), default=0)):
        hypotheses = hypotheses_at(parts, rank)
        nbest.append(join_parts(hypotheses, sources, alignments, code_words))
    repetitions = [part.repetition for part in parts if part.repetition is not None]
    return Translation(
        joined,
        tuple(token for part in parts for token in part.tokens),
        sum((part.score for part in parts), 0.0),
        tuple(links) if alignments else None,
        nbest=tuple(nbest),
        repetition=repetitions[0] if repetitions else None,
        is_complete=all(part.is_complete for part in parts),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        ids=tuple(index for part in parts for index in part.ids),
        log_probs=tuple(value for part in parts for value in part.log_probs),
        source_tokens=tuple(token for part in parts for token in part.source_tokens),
        parts=tuple(
            TranslatedPart(text.strip(), part.text, part.score)
            for text, part in zip(sources, parts, strict=True)
        ),
    )
