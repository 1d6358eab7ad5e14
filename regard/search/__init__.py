"""Looking for the best target, of any model that has the verbs."""

from regard.search.beams import Beams, Finished, StepCandidates, StepResult
from regard.search.constraint_text import (
    NO_CONSTRAINTS,
    ConstraintEncoder,
    Constraints,
    check_constraints,
    contradictions,
)
from regard.search.constraints import is_complete
from regard.search.hypothesis import BannedPhrase, DecodingModel, Hypothesis, SearchSettings, Task, Term
from regard.search.loop import decode, search
from regard.search.rerank import Repetition, coverage, find_repetition, mbr_utility
from regard.search.rules import Bans, LengthPenalty, Rule, SuppressTokens

__all__ = [
    "NO_CONSTRAINTS",
    "BannedPhrase",
    "Bans",
    "Beams",
    "ConstraintEncoder",
    "Constraints",
    "DecodingModel",
    "Finished",
    "Hypothesis",
    "LengthPenalty",
    "Repetition",
    "Rule",
    "SearchSettings",
    "StepCandidates",
    "StepResult",
    "SuppressTokens",
    "Task",
    "Term",
    "check_constraints",
    "contradictions",
    "coverage",
    "decode",
    "find_repetition",
    "is_complete",
    "mbr_utility",
    "search",
]
