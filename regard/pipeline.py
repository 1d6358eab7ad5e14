"""From raw text to raw text: a folder is loaded, lines go in, translations come out, with what the model looked at."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from regard.attention import Read, watch
from regard.attention.alignment import Link, Readings, strongest
from regard.checkpoint import FolderSettings, load_alignment, load_folder
from regard.data.batching import pad
from regard.data.text import clean
from regard.data.tokenizer import BOS, EOS, Tokenizer
from regard.errors import UsageError
from regard.models import Batch, Model, device_of
from regard.search import Hypothesis, SearchSettings, search

__all__ = ["AlignmentChoice", "Translation", "Translator", "load"]

BATCH_PIECES = 4096
"""The most source pieces that are decoded together, for one beam."""
_SENTENCE_END = re.compile(r"(?<=[.!?。！？…])[\"'”’)\]»]*\s+")


@dataclass(frozen=True)
class AlignmentChoice:
    """Which read is taken for the alignment: a layer, one of its heads (None: their mean), and which row."""

    layer: str
    head: int | None
    consumed: bool


@dataclass(frozen=True)
class Translation:
    """One translated line.

    `score` is the log-probability over the length penalty; a line that was cut into sentences has their sum.
    `alignments` are links (source word, target word); `nbest` holds the other hypotheses, best first, if asked for.
    """

    text: str
    tokens: tuple[str, ...]
    score: float
    alignments: tuple[Link, ...] | None = None
    readings: Readings | None = field(default=None, repr=False)
    nbest: tuple[Translation, ...] = ()


def load(folder: str | Path, device: str = "cpu") -> Translator:
    """A translator from the folder that training wrote. Raises ModelFolderError when a part is missing or damaged."""
    found = load_folder(folder, device)
    choice = load_alignment(Path(folder))
    return Translator(found.model, found.tokenizer, found.settings, AlignmentChoice(**choice) if choice else None)


class Translator:
    """Translates raw text: `regard.load(folder).translate("나는 집에 간다")`."""

    def __init__(
        self, model: Model, tokenizer: Tokenizer, settings: FolderSettings, choice: AlignmentChoice | None = None
    ) -> None:
        self.model, self.tokenizer, self.settings, self.choice = model, tokenizer, settings, choice

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
        cuts = [self._cut(line) for line in lines]
        sentences = [sentence for cut in cuts for sentence in cut]
        found = iter(self._decode([self._encode(sentence) for sentence in sentences], settings))
        results = []
        for cut in cuts:
            parts = [self._translation(s, next(found), nbest, alignments, readings or alignments) for s in cut]
            results.append(_joined(parts, cut) if len(parts) != 1 else parts[0])
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
        ids = self.tokenizer.target.encode(target)
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
                f"{nbest} best of a beam of {settings.beam}: ask for 1 to {settings.beam}, or widen the beam"
            )
        return settings

    def _encode(self, text: str) -> list[int]:
        return [*self.tokenizer.source.encode(text), EOS]

    def _cut(self, line: str) -> list[str]:
        """The sentences of a line that is longer than anything seen in training; any other line whole."""
        line, longest = clean(line), self.settings.search.longest_source
        if not line or longest is None or len(self._encode(line)) <= longest:
            return [line] if line else []
        packed: list[str] = []
        for sentence in _SENTENCE_END.split(line):
            together = f"{packed[-1]} {sentence}" if packed else sentence
            if packed and len(self._encode(together)) <= longest:
                packed[-1] = together
            else:
                packed.append(sentence)
        for sentence in packed:
            if (length := len(self._encode(sentence))) > longest:
                warnings.warn(
                    f"a sentence of {length} pieces is longer than any in training ({longest}); it is translated "
                    f"whole, but may come out badly: {sentence[:40]}…",
                    stacklevel=3,
                )
        return packed

    def _decode(self, sources: list[list[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """Search for all sources, in batches of similar length, and give the results in the order of the sources."""
        results: list[list[Hypothesis]] = [[] for _ in sources]
        device = device_of(self.model)
        for group in _groups([len(source) for source in sources], BATCH_PIECES // settings.beam):
            ids, keep = pad([sources[i] for i in group])
            batch = Batch(ids.to(device), None if keep is None else keep.to(device))
            with torch.inference_mode():
                source = self.model.encode(batch)
            found = search(self.model, source, [len(sources[i]) for i in group], settings)
            for i, hypotheses in zip(group, found, strict=True):
                results[i] = hypotheses
        return results

    def _translation(
        self, source: str, found: list[Hypothesis], nbest: int, alignments: bool, readings: bool
    ) -> Translation:
        best = self._text(found[0])
        if nbest > 1:
            best = replace(best, nbest=tuple(self._text(hypothesis) for hypothesis in found[:nbest]))
        if not readings:
            return best
        seen = self.readings(source, found[0].ids)
        return replace(best, readings=seen, alignments=tuple(self.align(seen)) if alignments else None)

    def align(self, readings: Readings) -> list[Link]:
        """The source word that each target word looked at most, in the layer and head that were chosen for it."""
        choice = self.choice or AlignmentChoice(readings.layers()[-1], None, False)
        return strongest(readings.words(choice.layer, choice.head, choice.consumed).weights)

    def _text(self, hypothesis: Hypothesis) -> Translation:
        target = self.tokenizer.target
        return Translation(target.decode(hypothesis.ids), tuple(target.pieces(hypothesis.ids)), hypothesis.score)


def _groups(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of similar lengths together, longest first, as many as the budget holds."""
    groups: list[list[int]] = []
    for i in np.argsort([-length for length in lengths], kind="stable").tolist():
        longest = lengths[groups[-1][0]] if groups else 0
        if groups and (len(groups[-1]) + 1) * longest <= budget:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _joined(parts: list[Translation], cut: list[str]) -> Translation:
    """The translations of the sentences of one line, put together again; links count the words of the whole line."""
    links: list[Link] = []
    source = target = 0
    for part, sentence in zip(parts, cut, strict=True):
        links += [(s + source, t + target) for s, t in part.alignments or ()]
        source, target = source + len(sentence.split()), target + len(part.text.split())
    aligned = tuple(links) if all(part.alignments is not None for part in parts) else None
    tokens = tuple(token for part in parts for token in part.tokens)
    text = " ".join(part.text for part in parts)
    return Translation(text, tokens, sum(part.score for part in parts), aligned)


def _without_readings(translation: Translation) -> Translation:
    return replace(translation, readings=None)
