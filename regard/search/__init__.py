"""Decoding: beam search, sampling and constrained search with any model that is a `DecodingModel`.

`loop.decode` decodes a batch of `Task`s, and a scheduler can do so with continuous batching; both
step a `Decoding`. In each step the model proposes tokens (`StepCandidates`), `logits_processors`
change their scores, `sampling` or `candidate_selection` selects among them, and `Beams` is
advanced. `rerank` orders the finished `Hypothesis` lists. `constraint_text` tokenises constraints,
and `constraints` follows them through a search. `forced_decoding` and `search_trace` record what a
model did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.lazy import lazy_names

if TYPE_CHECKING:
    from regard.search.beams import Beams, Finished, StepCandidates
    from regard.search.constraint_text import (
        ConstraintEncoder,
        check_constraints,
        check_required,
        contradictions,
    )
    from regard.search.constraints import is_complete, required_tokens
    from regard.search.logits_processors import (
        Bans,
        BeamView,
        LengthPenalty,
        Rule,
        SuppressTokens,
    )
    from regard.search.loop import Decoding, DecodingModel, decode, search
    from regard.search.rerank import Repetition, coverage, find_repetition, mbr_utility
    from regard.search.settings import SearchOptions, SearchSettings
    from regard.search.task import BannedPhrase, Hypothesis, Task, Term
    from regard.text.constraints import NO_CONSTRAINTS, Constraints

__all__ = [
    "NO_CONSTRAINTS",
    "BannedPhrase",
    "Bans",
    "BeamView",
    "Beams",
    "ConstraintEncoder",
    "Constraints",
    "Decoding",
    "DecodingModel",
    "Finished",
    "Hypothesis",
    "LengthPenalty",
    "Repetition",
    "Rule",
    "SearchOptions",
    "SearchSettings",
    "StepCandidates",
    "SuppressTokens",
    "Task",
    "Term",
    "check_constraints",
    "check_required",
    "contradictions",
    "coverage",
    "decode",
    "find_repetition",
    "is_complete",
    "mbr_utility",
    "required_tokens",
    "search",
]

_MODULES = {
    "beams": ("Beams", "Finished", "StepCandidates"),
    "constraint_text": (
        "ConstraintEncoder",
        "check_constraints",
        "check_required",
        "contradictions",
    ),
    "constraints": ("is_complete", "required_tokens"),
    "loop": ("Decoding", "DecodingModel", "decode", "search"),
    "rerank": ("Repetition", "coverage", "find_repetition", "mbr_utility"),
    "logits_processors": (
        "Bans",
        "BeamView",
        "LengthPenalty",
        "Rule",
        "SuppressTokens",
    ),
    "settings": ("SearchOptions", "SearchSettings"),
    "task": ("BannedPhrase", "Hypothesis", "Task", "Term"),
    "regard.text.constraints": ("Constraints", "NO_CONSTRAINTS"),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
