"""Run an export to CTranslate2: from token ids to hypotheses, with the scores of Regard's own
search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from regard.common.lazy import needs_extra
from regard.common.processes import torch_threads
from regard.common.reading import file_bytes, parse_json
from regard.data.vocabulary import BOS, EOS, PAD, UNK
from regard.search import Hypothesis, LengthPenalty, SearchSettings

_SUPPRESSED = (PAD, UNK, BOS)


def import_ctranslate2(purpose: str) -> Any:
    """Import the package late. Raises MissingExtra if it is not installed."""
    with needs_extra("fast", purpose, ["ctranslate2"]):
        import ctranslate2
    return ctranslate2


class CTranslate2:
    """An export to CTranslate2 that was written by `regard export --to ctranslate2`.

    `max_source` and `max_target` are the largest numbers of tokens; None means no limit. The scores
    of hypotheses are those of Regard's search, up to the error of the precision. An n-best list may
    contain other hypotheses below the first. A source that consists of the end of sentence has the
    empty target.
    """

    def __init__(self, export: Path, max_source: int, max_target: int | None) -> None:
        ctranslate2 = import_ctranslate2("an export to CTranslate2")
        with torch_threads():  # making a translator changes PyTorch's number of threads
            self._translator = ctranslate2.Translator(
                str(export), inter_threads=1, intra_threads=0
            )
        self.max_source = max_source
        self.max_target = max_target
        self._source, self._target = _vocabularies(export)
        self._ids = {token: i for i, token in enumerate(self._target)}

    def search(
        self, sources: Sequence[Sequence[int]], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """Decode sources (ids with end of sentence) as one batch; return the hypotheses of each,
        best first.

        Of the settings, the beam, the length penalty and the length limits are used.
        """
        max_steps = [
            min(settings.max_steps(len(source), self.max_target), self.max_source)
            for source in sources
        ]
        results = self._translate(sources, max(max_steps), settings)
        for i, source in enumerate(sources):
            if any(len(h.ids) >= max_steps[i] - 1 for h in results[i]):
                (results[i],) = self._translate(
                    [source], max_steps[i], settings, patience=2
                )
            is_short = any(len(h.ids) < settings.min_length for h in results[i])
            if is_short or any(
                token in h.ids for h in results[i] for token in _SUPPRESSED
            ):
                (results[i],) = self._translate(
                    [source], max_steps[i], settings, suppress=True
                )
        return results

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Return the log-probability of each token of given targets, the end of sentence last."""
        results = self._translator.score_batch(
            [[self._source[i] for i in source] for source in sources],
            [[self._target[i] for i in target] for target in targets],
            max_input_length=0,
            max_batch_size=64,
        )
        return [list(result.log_probs) for result in results]

    def _translate(
        self,
        sources: Sequence[Sequence[int]],
        max_steps: int,
        settings: SearchSettings,
        patience: int = 1,
        suppress: bool = False,
    ) -> list[list[Hypothesis]]:
        """Decode targets of at most `max_steps` tokens, including the end of sentence.

        A target that is cut at this length lacks the score of its end, so it ranks too high; with a
        `patience` of 2 it displaces no other hypothesis. Suppression changes every probability, so
        it is used only if a suppressed token was written, and the targets are then scored again.
        """
        exponent = _exponent(
            settings.length_penalty, sum(map(len, sources)) / len(sources)
        )
        count = settings.beam * patience if settings.beam > 1 else 1
        options: dict[str, object] = {}
        if suppress:
            options = {
                "disable_unk": True,
                "suppress_sequences": [[self._target[i]] for i in (PAD, BOS)],
            }
        results = self._translator.translate_batch(
            [[self._source[i] for i in source] for source in sources],
            beam_size=settings.beam,
            num_hypotheses=count,
            patience=patience,
            length_penalty=exponent,
            min_decoding_length=settings.min_length if suppress else 0,
            max_decoding_length=max_steps - 1,
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
            **options,
        )
        ranked = []
        for source, result in zip(sources, results, strict=True):
            rows = [
                [self._ids[token] for token in tokens] for tokens in result.hypotheses
            ]
            log_probs = [
                # a target cut at max_steps: our search ends it there, and counts the end
                score * len(ids) ** exponent
                if ids[-1:] == [EOS] and not suppress
                else self._log_prob(source, ids)
                for ids, score in zip(rows, result.scores, strict=True)
            ]
            ranked.append(_ranked(rows, log_probs, settings))
        return ranked

    def _log_prob(self, source: Sequence[int], ids: Sequence[int]) -> float:
        """Score a target; its end of sentence counts whether it is there or not."""
        return sum(self.score([source], [ids[:-1] if ids[-1:] == [EOS] else ids])[0])


def _exponent(alpha: float, length: float) -> float:
    """Return the exponent of CTranslate2's length penalty that behaves like ours with `alpha`
    around a length.

    Both penalties then grow by the same share. With zero, CTranslate2 would end its search at the
    first hypothesis.
    """
    return max(alpha * length / (5 + length), 1e-6)


def _ranked(
    rows: Sequence[list[int]], log_probs: Sequence[float], settings: SearchSettings
) -> list[Hypothesis]:
    """Return hypotheses with our scores, best first."""
    penalty = LengthPenalty(settings.length_penalty)
    hypotheses = [
        Hypothesis(tuple(ids[:-1] if ids[-1:] == [EOS] else ids), log_prob, 0.0)
        for ids, log_prob in zip(rows, log_probs, strict=True)
    ]
    scored = [
        replace(h, score=h.log_prob / penalty(len(h.ids) + 1)) for h in hypotheses
    ]
    return sorted(scored, key=lambda h: -h.score)[: settings.beam]


def _vocabularies(export: Path) -> tuple[list[str], list[str]]:
    """Read the tokens of both sides, by their ids."""
    shared = export / "shared_vocabulary.json"
    files = (
        [shared, shared]
        if shared.is_file()
        else [export / f"{s}_vocabulary.json" for s in ("source", "target")]
    )
    source, target = (
        TypeAdapter(list[str]).validate_python(parse_json(file_bytes(file)))
        for file in files
    )
    return source, target
