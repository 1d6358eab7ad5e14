"""Looking for the best target, of any model that has the verbs."""

from regard.search.drive import find, search
from regard.search.front import Best, Finished, Front, Moved
from regard.search.hypothesis import Hypothesis, SearchSettings, Task, Term, Verbs, Word
from regard.search.rules import Bans, Forbid, LengthPenalty, Rule

__all__ = [
    "Bans",
    "Best",
    "Finished",
    "Forbid",
    "Front",
    "Hypothesis",
    "LengthPenalty",
    "Moved",
    "Rule",
    "SearchSettings",
    "Task",
    "Term",
    "Verbs",
    "Word",
    "find",
    "search",
]
