"""From raw text to raw text: a folder is loaded, lines go in, translations come out, with what the model looked at."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from regard.attention import Read, watch
from regard.attention.alignment import Link, Readings, strongest
from regard.checkpoint import ALIGNMENT, FolderSettings, load_alignment, load_folder
from regard.data.text import clean
from regard.data.tokenizer import BOS, EOS, Tokenizer
from regard.engine import Engine, EngineName, Job, Precision
from regard.errors import LineWarning, UsageError
from regard.models import Batch, Model, device_of
from regard.search import Hypothesis, SearchSettings, Task

__all__ = ["AlignmentChoice", "Translation", "Translator", "last_layer", "load"]

WHOLE = 2
"""A sentence so many times longer than the longest in training is still translated whole."""
_SENTENCE_END = re.compile(r"(?<=[.!?。！？…])[\"'”’)\]»]* |(?<=[。！？])[”’」』）]*")
_WORD = re.compile(r"[^ ]+ ?")


@dataclass(frozen=True)
class AlignmentChoice:
    """Which read is taken for the alignment: a layer, one of its heads (None: their mean), and which row."""

    layer: str
    head: int | None
    consumed: bool


@dataclass(frozen=True)
class Translation:
    """One translated line.

    `score` is the log-probability over the length penalty; a line that was cut has the sum of its parts, and no
    readings. `alignments` are links (source word, target word); `nbest` holds the hypotheses, best first, if asked for.
    """

    text: str
    tokens: tuple[str, ...]
    score: float
    alignments: tuple[Link, ...] | None = None
    readings: Readings | None = field(default=None, repr=False)
    nbest: tuple[Translation, ...] = ()


def load(
    folder: str | Path, device: str = "cpu", engine: EngineName = "auto", precision: Precision = "float32"
) -> Translator:
    """A translator from the folder that training wrote.

    `engine` and `precision` say who decodes and how exactly: `int8` is the quickest on a processor. Raises
    ModelFolderError when a part is missing or damaged, UsageError when this machine lacks what is asked for.
    """
    found = load_folder(folder, device)
    choice = _choice(Path(folder), found.model)
    return Translator(found.model, found.tokenizer, found.settings, choice, Engine(found.model, engine, precision))


def _choice(folder: Path, model: Model) -> AlignmentChoice | None:
    """The read that was chosen for alignments, if this model has it."""
    values = load_alignment(folder)
    if values is None:
        return None
    read = dict(model.named_modules()).get(values["layer"])
    if isinstance(read, Read) and read.role == "cross" and values["head"] in (None, *range(read.heads)):
        return AlignmentChoice(**values)
    warnings.warn(
        f"{folder / ALIGNMENT}: names a layer or head that this model lacks and is not used; alignments come from the "
        "last layer",
        stacklevel=3,
    )
    return None


def last_layer(readings: Readings) -> AlignmentChoice:
    """The mean of the heads of the highest layer. Raises UsageError for a model without attention."""
    if not (layers := readings.layers()):
        raise UsageError(
            "this model has no attention (model.decoder.kind = plain): it looks at no word, so none can be aligned or "
            "shown; use one that reads, such as the preset rnn-bahdanau"
        )
    return AlignmentChoice(layers[-1], None, False)


class Translator:
    """Translates raw text: `regard.load(folder).translate("나는 집에 간다")`."""

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        settings: FolderSettings,
        choice: AlignmentChoice | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.model, self.tokenizer, self.settings, self.choice = model, tokenizer, settings, choice
        self.engine = engine or Engine(model)

    def translate(
        self,
        texts: str | Sequence[str],
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        alignments: bool = False,
        readings: bool = False,
    ) -> list[Translation]:
        """Translate a line or many; the result has one translation a line, in their order. Empty lines stay empty.

        `readings` come from one more pass over the winner's own pieces, so they are those of the result whatever the
        search did. Raises UsageError when more hypotheses are asked for than the beam holds.
        """
        lines = [texts] if isinstance(texts, str) else list(texts)
        settings = self._search(beam, nbest, length_penalty)
        self.model.eval()
        cuts = [self._cut(line, place) for place, line in enumerate(lines)]
        sentences = [sentence for cut in cuts for sentence in cut]
        found = iter(self._decode([self._encode(sentence) for sentence in sentences], settings))
        results = []
        for cut in cuts:
            parts = [self._translation(s, next(found), nbest, alignments, readings) for s in cut]
            results.append(parts[0] if len(parts) == 1 else _joined(parts, cut, alignments))
        return results if readings else [_without_readings(result) for result in results]

    def readings(self, source: str, target: Sequence[int]) -> Readings:
        """What the model looks at when it is made to write these target pieces (without end of sentence)."""
        ids, out = self._encode(source), [*target, EOS]
        device = device_of(self.model)
        self.model.eval()
        with torch.inference_mode(), watch(self.model) as watched:
            self.model(Batch(torch.tensor([ids], device=device)), torch.tensor([[BOS, *target]], device=device))
        weights = {name: heard[0].cpu().numpy() for name, heard in watched.items()}
        modules = dict(self.model.named_modules())
        roles = {name: module.role for name in weights if isinstance(module := modules[name], Read)}
        source_pieces, target_pieces = self.tokenizer.source.pieces(ids), self.tokenizer.target.pieces(out)
        groups = self.tokenizer.source.words(source_pieces), self.tokenizer.target.words(target_pieces)
        return Readings(tuple(source_pieces), tuple(target_pieces), tuple(groups[0]), tuple(groups[1]), weights, roles)

    def score(self, source: str, target: str) -> float:
        """The log-probability of a given target, end of sentence included."""
        return self._forced(source, self.tokenizer.target.encode(target))

    def _forced(self, source: str, ids: Sequence[int]) -> float:
        """The log-probability of given target pieces and the end of sentence after them."""
        device = device_of(self.model)
        self.model.eval()
        with torch.inference_mode():
            features = self.model(
                Batch(torch.tensor([self._encode(source)], device=device)), torch.tensor([[BOS, *ids]], device=device)
            )
            likely = self.model.project(features)[0].log_softmax(-1)
            return float(likely.gather(1, torch.tensor([*ids, EOS], device=device)[:, None]).sum())

    def _search(self, beam: int | None, nbest: int, length_penalty: float | None) -> SearchSettings:
        asked = {"beam": beam, "length_penalty": length_penalty}
        settings = self.settings.search.with_values(**{k: v for k, v in asked.items() if v is not None})
        if not 1 <= nbest <= settings.beam:
            raise UsageError(
                f"nbest: {nbest} best of a beam of {settings.beam}: ask for 1 to {settings.beam}, or widen the beam"
            )
        return settings

    def _encode(self, text: str) -> list[int]:
        return [*self.tokenizer.source.encode(text), EOS]

    def _length(self, text: str) -> int:
        return len(self._encode(text))

    def _cut(self, line: str, place: int = 0) -> list[str]:
        """The parts of a line that is longer than anything seen in training; any other line whole. `place` is for
        warnings: where the line stands among those given.

        Put together again, with nothing between, they are the line.
        """
        line, longest = clean(line), self.settings.search.longest_source
        if not line or longest is None or self._length(line) <= longest:
            return [line] if line else []
        sentences = self._packed(_split(line, _SENTENCE_END), longest)
        return [part for sentence in sentences for part in self._parts(sentence, longest, place)]

    def _packed(self, parts: Iterable[str], longest: int) -> list[str]:
        """Neighbours put together as long as they are no longer than `longest` pieces."""
        packed: list[str] = []
        for part in parts:
            if packed and self._length(packed[-1] + part) <= longest:
                packed[-1] += part
            else:
                packed.append(part)
        return packed

    def _parts(self, sentence: str, longest: int, place: int) -> list[str]:
        """A sentence whole, with a warning if it is long; in parts, with another, where it is far too long."""
        length = self._length(sentence)
        parts, done = [sentence], "is translated whole, but may come out badly"
        if length > WHOLE * longest:
            words = [self._within(word, longest) for word in _WORD.findall(sentence)]
            parts = self._packed([part for word in words for part in word], longest)
            where = "at spaces" if all(len(word) == 1 for word in words) else "at spaces and inside words"
            done = f"was cut {where} into {len(parts)} parts, whose translations may not fit together"
        if length > longest:
            said = f"a sentence of {length:,} pieces is longer than any in training ({longest:,}); it {done}: "
            warnings.warn(LineWarning(place, f"{said}{sentence[:40]}…"), stacklevel=5)
        return parts

    def _within(self, word: str, longest: int) -> list[str]:
        """A word, cut between characters where it is longer than `longest` pieces."""
        parts = []
        while word:
            end, beyond = 1, 2  # the first `end` characters fit (one must); the first `beyond` do not, or are not there
            while beyond <= len(word) and self._length(word[:beyond]) <= longest:
                end, beyond = beyond, 2 * beyond
            beyond = min(beyond, len(word) + 1)
            while beyond - end > 1:
                middle = (end + beyond) // 2
                end, beyond = (middle, beyond) if self._length(word[:middle]) <= longest else (end, middle)
            parts.append(word[:end])
            word = word[end:]
        return parts

    def _decode(self, sources: list[list[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """Search for all sources; the results are in their order."""
        longest = [settings.longest(len(source), self.model.limit) for source in sources]
        jobs = [Job(source, Task(name, most)) for name, (source, most) in enumerate(zip(sources, longest, strict=True))]
        return self.engine.decode(jobs, settings)

    def _translation(
        self, source: str, found: list[Hypothesis], nbest: int, alignments: bool, readings: bool
    ) -> Translation:
        some = [self._text(hypothesis) for hypothesis in found[:nbest]]
        if alignments or readings:
            seen = [self.readings(source, hypothesis.ids) for hypothesis in found[:nbest]]
            some = [
                replace(text, readings=read, alignments=tuple(self.align(read)) if alignments else None)
                for text, read in zip(some, seen, strict=True)
            ]
        return replace(some[0], nbest=tuple(map(_without_readings, some))) if nbest > 1 else some[0]

    def align(self, readings: Readings) -> list[Link]:
        """The source word that each target word looked at most, in the layer and head that were chosen for it.

        Raises UsageError for a model without attention.
        """
        choice = self.choice or last_layer(readings)
        return strongest(readings.words(choice.layer, choice.head, choice.consumed).weights)

    def _text(self, hypothesis: Hypothesis) -> Translation:
        target = self.tokenizer.target
        return Translation(target.decode(hypothesis.ids), tuple(target.pieces(hypothesis.ids)), hypothesis.score)


def _split(line: str, end: re.Pattern[str]) -> list[str]:
    """The line cut after each match, nothing left out."""
    ends = [match.end() for match in end.finditer(line)]
    return [line[start:stop] for start, stop in zip([0, *ends], [*ends, len(line)], strict=True) if start < stop]


def _joined(parts: Sequence[Translation], cut: Sequence[str], alignments: bool) -> Translation:
    """The translations of the parts of one line, put together again; links count the words of the whole line."""
    links: list[Link] = []
    source = target = 0
    for part, text in zip(parts, cut, strict=True):
        links += [(s + source, t + target) for s, t in part.alignments or ()]
        source, target = source + text.count(" "), target + len(part.text.split())
    ranks = range(max((len(part.nbest) for part in parts), default=0))
    return Translation(
        " ".join(part.text for part in parts if part.text),
        tuple(token for part in parts for token in part.tokens),
        sum((part.score for part in parts), 0.0),
        tuple(links) if alignments else None,
        nbest=tuple(_joined([_ranked(part, rank) for part in parts], cut, alignments) for rank in ranks),
    )


def _ranked(part: Translation, rank: int) -> Translation:
    """The hypothesis of this rank, or the last where the search found fewer."""
    return part.nbest[min(rank, len(part.nbest) - 1)]


def _without_readings(translation: Translation) -> Translation:
    return replace(translation, readings=None)
