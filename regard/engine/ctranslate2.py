"""CTranslate2 as a second engine: ids go in, hypotheses come out, as our own search would give them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.data.vocabulary import BOS, EOS, PAD, UNK
from regard.errors import MissingExtra, ModelFolderError, UsageError
from regard.model_folder import CONFIG, WEIGHTS
from regard.search import Hypothesis, LengthPenalty, Rule, SearchSettings, SuppressTokens

__all__ = ["NOTES", "CTranslate2", "export_folder", "fingerprint", "import_ctranslate2", "up_to_date"]

NOTES = "regard.json"
"""What an export says of itself: the fingerprint of its weights, its precision, how it was checked."""
_NEVER = (PAD, UNK, BOS)
_KNOWN = {"beam", "length_penalty", "max_ratio", "max_extra", "longest_source", "seed", "diversity"}
"""Settings that it follows, or that say nothing in a search that it can do."""


def import_ctranslate2(purpose: str) -> Any:
    """The package, imported late. Raises MissingExtra where it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        raise MissingExtra("ctranslate2", "fast", purpose) from None
    return ctranslate2


def export_folder(folder: Path, precision: str) -> Path:
    """Where a model folder keeps its export of this precision."""
    return folder / "exports" / f"ctranslate2-{precision}"


def fingerprint(folder: Path) -> str:
    """The SHA-256 of a model folder's weights and settings: what an export is made from."""
    both = hashlib.sha256()
    for name in (CONFIG, WEIGHTS):
        with (folder / name).open("rb") as file:
            while part := file.read(1 << 20):
                both.update(part)
    return both.hexdigest()


def up_to_date(export: Path, folder: Path) -> bool:
    """Whether an export is there, whole, and of the weights that the model folder has now."""
    try:
        notes = json.loads((export / NOTES).read_text(encoding="utf-8"))
        return bool(notes["fingerprint"] == fingerprint(folder)) and (export / "model.bin").is_file()
    except (OSError, ValueError, KeyError, TypeError):
        return False


class CTranslate2:
    """A model that `regard export --to ctranslate2` wrote.

    `workers` batches are computed at once, each with `threads` threads. The score of a hypothesis is that of our own
    search, up to what the precision costs. Below the first, an n-best list may hold other hypotheses. A source that is
    nothing but its end has the empty target.
    """

    def __init__(self, export: str | Path, workers: int = 1, threads: int = 0) -> None:
        export = Path(export)
        ctranslate2 = import_ctranslate2("the CTranslate2 engine")
        before = torch.get_num_threads()
        try:
            self.notes: dict[str, Any] = json.loads((export / NOTES).read_text(encoding="utf-8"))
            self._translator = ctranslate2.Translator(str(export), inter_threads=workers, intra_threads=threads)
            self._source, self._target = _vocabularies(export)
        except (OSError, ValueError, RuntimeError) as problem:
            raise ModelFolderError(
                f"{export}: not an export for CTranslate2 that is whole ({problem}); write it again with regard export"
            ) from None
        finally:
            torch.set_num_threads(before)  # a translator takes PyTorch's threads away from whoever makes it
        self._ids = {token: i for i, token in enumerate(self._target)}

    @property
    def precision(self) -> str:
        """The precision of its weights, as it was asked for."""
        return str(self.notes["precision"])

    def unsupported(self, settings: SearchSettings, rules: Sequence[Rule] = (SuppressTokens(),)) -> list[str]:
        """Everything in this search that only our own can do; nothing where this engine can do it all."""
        plain = type(settings)()
        causes = [
            f"search.{name} = {getattr(settings, name)!r}"
            for name in type(settings).model_fields
            if name not in _KNOWN and getattr(settings, name) != getattr(plain, name)
        ]
        return causes + [
            f"the rule {type(rule).__name__}"
            for rule in rules
            if not (isinstance(rule, SuppressTokens) and set(rule.suppressed) == set(_NEVER))
        ]

    def search(self, sources: Sequence[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """The hypotheses of each source (its end of sentence included), best first. All are decoded as one batch.

        Raises UsageError, with every reason, for a search that this engine cannot do.
        """
        if causes := self.unsupported(settings):
            raise UsageError(*(f"CTranslate2 cannot do {cause}; use the native engine" for cause in causes))
        if not sources:
            return []
        longest = [min(settings.max_steps(len(source), self.max_target), self.max_source) for source in sources]
        found = self._within(sources, max(longest), settings)
        for i, source in enumerate(sources):
            if any(len(h.ids) >= longest[i] - 1 for h in found[i]):
                (found[i],) = self._within([source], longest[i], settings, patience=2)
            if any(piece in h.ids for h in found[i] for piece in _NEVER):
                (found[i],) = self._within([source], longest[i], settings, forbid=True)
        return found

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probability of each piece of given targets, that of the end of sentence last."""
        results = self._translator.score_batch(
            [self._tokens(source) for source in sources],
            [[self._target[i] for i in target] for target in targets],
            max_input_length=0,
            max_batch_size=64,
        )
        return [list(result.log_probs) for result in results]

    @property
    def max_source(self) -> int:
        """Pieces of the longest source it can read."""
        return int(self.notes["positions"])

    @property
    def max_target(self) -> int | None:
        """The longest target that its decoder can write, if there is one."""
        limit = self.notes.get("limit")
        return None if limit is None else int(limit)

    def _tokens(self, source: Sequence[int]) -> list[str]:
        if len(source) > self.max_source:
            raise UsageError(
                f"a source of {len(source):,} pieces is longer than the {self.max_source:,} that this export has "
                "positions for; use the native engine"
            )
        return [self._source[i] for i in source]

    def _within(
        self,
        sources: Sequence[Sequence[int]],
        longest: int,
        settings: SearchSettings,
        patience: int = 1,
        forbid: bool = False,
    ) -> list[list[Hypothesis]]:
        """Search where every target may have at most `longest` pieces, end of sentence included.

        Targets that are cut there have an end too much in their favour; with `patience` 2 they push out no others.
        Pieces that are never written are hardly ever likely, and forbidding them changes every probability: it is done
        only where it must be, and then the probabilities are asked for once more.
        """
        exponent = _exponent(settings.length_penalty, sum(map(len, sources)) / len(sources))
        kept = settings.beam * patience if settings.beam > 1 else 1
        never = {"disable_unk": True, "suppress_sequences": [[self._target[i]] for i in (PAD, BOS)]} if forbid else {}
        results = self._translator.translate_batch(
            [self._tokens(source) for source in sources],
            beam_size=settings.beam,
            num_hypotheses=kept,
            patience=patience,
            length_penalty=exponent,
            min_decoding_length=0,
            max_decoding_length=longest - 1,
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
            **never,
        )
        found = []
        for source, result in zip(sources, results, strict=True):
            rows = [[self._ids[token] for token in tokens] for tokens in result.hypotheses]
            totals = [
                # cut at the longest: our search ends it there, and counts the end
                score * len(ids) ** exponent if ids[-1:] == [EOS] and not forbid else self._total(source, ids)
                for ids, score in zip(rows, result.scores, strict=True)
            ]
            found.append(_ranked(rows, totals, settings))
        return found

    def _total(self, source: Sequence[int], ids: Sequence[int]) -> float:
        """The log-probability of a target, its end included whether it is there or not."""
        return sum(self.score([source], [ids[:-1] if ids[-1:] == [EOS] else ids])[0])


def _exponent(alpha: float, length: float) -> float:
    """Which power of the length divides as our penalty does around some length: CTranslate2 keeps the best by it.

    Both grow by the same share there. With a zero it would end its search at the first hypothesis.
    """
    return max(alpha * length / (5 + length), 1e-6)


def _ranked(rows: Sequence[list[int]], totals: Sequence[float], settings: SearchSettings) -> list[Hypothesis]:
    """Best first, as our search has them."""
    penalty = LengthPenalty(settings.length_penalty)
    found = [
        Hypothesis(tuple(ids[:-1] if ids[-1:] == [EOS] else ids), total, 0.0)
        for ids, total in zip(rows, totals, strict=True)
    ]
    scored = [replace(h, score=h.log_prob / penalty(len(h.ids) + 1)) for h in found]
    return sorted(scored, key=lambda h: -h.score)[: settings.beam]


def _vocabularies(export: Path) -> tuple[list[str], list[str]]:
    """The tokens of both sides by their ids."""
    shared = export / "shared_vocabulary.json"
    files = [shared, shared] if shared.is_file() else [export / f"{s}_vocabulary.json" for s in ("source", "target")]
    source, target = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    return source, target
