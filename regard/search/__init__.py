"""Looking for the best target, of any model that has the verbs."""

from regard.search.drive import find, search
from regard.search.front import Best, Finished, Front, Moved
from regard.search.hypothesis import Hypothesis, SearchSettings, Task, Term, Verbs, Word
from regard.search.ranking import Repetition, coverage, likeness, runaway
from regard.search.rules import Bans, Forbid, LengthPenalty, Rule
from regard.search.terms import is_complete
from regard.search.wording import NOTHING, Wish, Wording, checked, contradictions

__all__ = [
    "NOTHING",
    "Bans",
    "Best",
    "Finished",
    "Forbid",
    "Front",
    "Hypothesis",
    "LengthPenalty",
    "Moved",
    "Repetition",
    "Rule",
    "SearchSettings",
    "Task",
    "Term",
    "Verbs",
    "Wish",
    "Word",
    "Wording",
    "checked",
    "contradictions",
    "coverage",
    "find",
    "is_complete",
    "likeness",
    "runaway",
    "search",
]
