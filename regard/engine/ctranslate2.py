"""CTranslate2 engine: token ids in, hypotheses out, with the scores of Regard's own search."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter

from regard.atomic import file_sha256, write_text
from regard.data.vocabulary import BOS, EOS, PAD, UNK
from regard.errors import MissingExtra, ModelFolderError, UsageError
from regard.model_folder import model_fingerprint
from regard.reading import check_links, file_bytes, is_file_name, parse_json
from regard.seal import sealed, why_broken
from regard.search import Hypothesis, LengthPenalty, Rule, SearchSettings, SuppressTokens
from regard.search.rules import MinLength

NOTES = "regard.json"
"""File of an export: fingerprint of its weights, precision, limits, and how it was checked."""
_SUPPRESSED = (PAD, UNK, BOS)
_SUPPORTED = {"beam", "length_penalty", "max_ratio", "max_extra", "longest_source", "seed", "diversity"}
_SUPPORTED |= {"min_length", "split", "line_sentences", "max_line", "max_whole", "max_required", "max_forbidden"}
_SUPPORTED |= {"score_threshold"}
"""Settings that it follows, or that have no effect in a search that it supports."""


def import_ctranslate2(purpose: str) -> Any:
    """Import the package late. Raises MissingExtra if it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        raise MissingExtra("ctranslate2", "fast", purpose) from None
    return ctranslate2


def export_folder(folder: Path, precision: str) -> Path:
    """Return the path of a model folder's own export of this precision."""
    return folder / "exports" / f"ctranslate2-{precision}"


def fingerprint(folder: Path) -> str:
    """Hash a model folder's settings, vocabularies and weights (SHA-256): what an export is made from."""
    return model_fingerprint(folder)


def up_to_date(export: Path, folder: Path) -> bool:
    """Return whether an export is there, and of the model folder's present weights.

    Raises ModelFolderError if it is damaged.
    """
    check_links(folder, str(export.relative_to(folder)) if export.is_relative_to(folder) else "")
    if not export.is_dir():
        return False
    try:
        return bool(_read_notes(export)["fingerprint"] == fingerprint(folder))
    except (OSError, ValueError, KeyError) as problem:
        raise _incomplete(export, problem) from None


def _incomplete(export: Path, problem: Exception) -> ModelFolderError:
    return ModelFolderError(
        f"{export}: not a complete CTranslate2 export ({problem}); remove it and write it again with regard export"
    )


def write_notes(export: Path, notes: Mapping[str, Any]) -> None:
    """Write the notes of an export whose other files are complete: sealed, and with the SHA-256 of each of those."""
    files = {path.name: file_sha256(path) for path in sorted(export.iterdir()) if path.is_file() and path.name != NOTES}
    text = json.dumps(sealed({**notes, "files": files}), ensure_ascii=False, indent=2)
    write_text(export / NOTES, text + "\n")


def check_files(export: Path, notes: Mapping[str, Any]) -> None:
    """Raise ValueError if a file of an export is not what its notes say."""
    for name, digest in dict(notes["files"]).items():
        if not is_file_name(name):
            raise ValueError(f"{NOTES} names {name[:100]!r}, which is no file of an export")
        if file_sha256(export / name) != digest:
            raise ValueError(f"{name} is damaged or changed: it does not match its SHA-256 in {NOTES}")


def _read_notes(export: Path) -> dict[str, Any]:
    """Read the notes of an export. Raises OSError or ValueError if they are missing or damaged."""
    notes = parse_json(file_bytes(export / NOTES))
    if not isinstance(notes, dict) or (broken := why_broken(notes)):
        raise ValueError(f"{NOTES} is damaged or changed" + (f": {broken}" if isinstance(notes, dict) else ""))
    return notes


class CTranslate2:
    """Engine over an export that `regard export --to ctranslate2` wrote.

    `workers` batches are computed at once, each with `threads` threads. The score of a hypothesis is that of Regard's
    own search, up to the error of the precision. Below the first, an n-best list may hold other hypotheses. A source
    that is end of sentence alone has the empty target.
    """

    def __init__(self, export: str | Path, workers: int = 1, threads: int = 0) -> None:
        export = Path(export)
        ctranslate2 = import_ctranslate2("the CTranslate2 engine")
        before = torch.get_num_threads()
        check_links(export, "")
        try:
            self.notes = _read_notes(export)
            check_files(export, self.notes)
            self._translator = ctranslate2.Translator(str(export), inter_threads=workers, intra_threads=threads)
            self._source, self._target = _vocabularies(export)
        except (OSError, ValueError, RuntimeError, KeyError, TypeError) as problem:
            raise _incomplete(export, problem) from None
        finally:
            torch.set_num_threads(before)  # making a translator changes PyTorch's number of threads
        self._ids = {token: i for i, token in enumerate(self._target)}

    @property
    def precision(self) -> str:
        """Precision of the weights, as it was asked for."""
        return str(self.notes["precision"])

    def unsupported(self, settings: SearchSettings, rules: Sequence[Rule] = (SuppressTokens(),)) -> list[str]:
        """Return every setting and rule of this search that CTranslate2 does not support."""
        defaults = type(settings)()
        causes = [
            f"search.{name} = {getattr(settings, name)!r}"
            for name in type(settings).model_fields
            if name not in _SUPPORTED and getattr(settings, name) != getattr(defaults, name)
        ]
        return causes + [
            f"the rule {type(rule).__name__}"
            for rule in rules
            if not (isinstance(rule, SuppressTokens) and set(rule.suppressed) == set(_SUPPRESSED))
            and not isinstance(rule, MinLength)
        ]

    def search(self, sources: Sequence[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """Decode sources (ids, end of sentence included) as one batch; return the hypotheses of each, best first.

        Raises UsageError, with every reason, for a search that CTranslate2 does not support.
        """
        if causes := self.unsupported(settings):
            raise UsageError(*(f"CTranslate2 cannot do {cause}; take `engine=native`" for cause in causes))
        if not sources:
            return []
        max_steps = [min(settings.max_steps(len(source), self.max_target), self.max_source) for source in sources]
        results = self._translate(sources, max(max_steps), settings)
        for i, source in enumerate(sources):
            if any(len(h.ids) >= max_steps[i] - 1 for h in results[i]):
                (results[i],) = self._translate([source], max_steps[i], settings, patience=2)
            is_short = any(len(h.ids) < settings.min_length for h in results[i])
            if is_short or any(token in h.ids for h in results[i] for token in _SUPPRESSED):
                (results[i],) = self._translate([source], max_steps[i], settings, suppress=True)
        return results

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Score given targets: the log-probability of each token, that of end of sentence last."""
        results = self._translator.score_batch(
            [self._tokens(source) for source in sources],
            [[self._target[i] for i in target] for target in targets],
            max_input_length=0,
            max_batch_size=64,
        )
        return [list(result.log_probs) for result in results]

    @property
    def max_source(self) -> int:
        """Most tokens of a source."""
        return int(self.notes["max_source"])

    @property
    def max_target(self) -> int | None:
        """Most tokens of a target, if the decoder has a limit."""
        max_target = self.notes.get("max_target")
        return None if max_target is None else int(max_target)

    def _tokens(self, source: Sequence[int]) -> list[str]:
        if len(source) > self.max_source:
            raise UsageError(
                f"a source of {len(source):,} tokens is longer than the {self.max_source:,} that this export has "
                "positions for; take `engine=native`"
            )
        return [self._source[i] for i in source]

    def _translate(
        self,
        sources: Sequence[Sequence[int]],
        max_steps: int,
        settings: SearchSettings,
        patience: int = 1,
        suppress: bool = False,
    ) -> list[list[Hypothesis]]:
        """Decode targets of at most `max_steps` tokens, end of sentence included.

        The score of a target cut there lacks its end, and is too good; with `patience` 2 it displaces no other.
        Suppressed tokens are hardly ever likely, and suppressing them changes every probability: it is done only if
        one was written, and the targets are then scored again.
        """
        exponent = _exponent(settings.length_penalty, sum(map(len, sources)) / len(sources))
        count = settings.beam * patience if settings.beam > 1 else 1
        options: dict[str, Any] = {}
        if suppress:
            options = {"disable_unk": True, "suppress_sequences": [[self._target[i]] for i in (PAD, BOS)]}
        results = self._translator.translate_batch(
            [self._tokens(source) for source in sources],
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
            rows = [[self._ids[token] for token in tokens] for tokens in result.hypotheses]
            log_probs = [
                # a target cut at max_steps: our search ends it there, and counts the end
                score * len(ids) ** exponent if ids[-1:] == [EOS] and not suppress else self._log_prob(source, ids)
                for ids, score in zip(rows, result.scores, strict=True)
            ]
            ranked.append(_ranked(rows, log_probs, settings))
        return ranked

    def _log_prob(self, source: Sequence[int], ids: Sequence[int]) -> float:
        """Score a target; its end of sentence counts whether it is there or not."""
        return sum(self.score([source], [ids[:-1] if ids[-1:] == [EOS] else ids])[0])


def _exponent(alpha: float, length: float) -> float:
    """Return the exponent of CTranslate2's length penalty that behaves as ours with `alpha` around some length.

    Both grow by the same share there. At zero CTranslate2 would end its search at the first hypothesis.
    """
    return max(alpha * length / (5 + length), 1e-6)


def _ranked(rows: Sequence[list[int]], log_probs: Sequence[float], settings: SearchSettings) -> list[Hypothesis]:
    """Make hypotheses with our scores, best first."""
    penalty = LengthPenalty(settings.length_penalty)
    hypotheses = [
        Hypothesis(tuple(ids[:-1] if ids[-1:] == [EOS] else ids), log_prob, 0.0)
        for ids, log_prob in zip(rows, log_probs, strict=True)
    ]
    scored = [replace(h, score=h.log_prob / penalty(len(h.ids) + 1)) for h in hypotheses]
    return sorted(scored, key=lambda h: -h.score)[: settings.beam]


def _vocabularies(export: Path) -> tuple[list[str], list[str]]:
    """Read the tokens of both sides, by their ids."""
    shared = export / "shared_vocabulary.json"
    files = [shared, shared] if shared.is_file() else [export / f"{s}_vocabulary.json" for s in ("source", "target")]
    source, target = (TypeAdapter(list[str]).validate_python(parse_json(file_bytes(file))) for file in files)
    return source, target
