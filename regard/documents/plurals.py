"""Plural forms of a file of keys: those that the target language has and the file lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from regard.common.counting import counted
from regard.common.lazy import lazy_pattern
from regard.contracts.dialects import get_dialect
from regard.contracts.messages import read
from regard.data.languages import english_name
from regard.documents.document import DocumentText
from regard.documents.plural_rules import plural_rule

_FORM = lazy_pattern(r"(.+?)(?:[._]| \[)(zero|one|two|few|many|other)\]?")
"""Name of a text that is one plural form."""


def plural_notes(texts: Iterable[DocumentText], target: str) -> Iterator[str]:
    """Yield a sentence on the plural forms that a language needs and a file lacks, if any."""
    rule = plural_rule(target)
    categories = rule.categories if rule else ()
    needed = [name for name in categories if name not in ("one", "other")]
    groups = defaultdict[str, set[str]](set)
    for name, category in _forms(texts) if needed else ():
        groups[name].add(category)
    lacking = [
        name
        for name, own in groups.items()
        if "other" in own and not own.issuperset(needed)
    ]
    if lacking:
        yield (
            f"{counted(len(lacking), 'plural has', 'plurals have')} no form "
            f"{' or '.join(needed)}, which {english_name(target)} needs, such "
            f"as {lacking[0]}: add them by hand"
        )


def _forms(texts: Iterable[DocumentText]) -> Iterator[tuple[str, str]]:
    """Yield the name and the category of each plural form."""
    for text in texts:
        if match := _FORM.fullmatch(text.name):
            yield match[1], match[2]
        elif "plural" in text.text:
            for selector in read(text.text, get_dialect(text.dialect)).selectors:
                for category, _ in selector.branches if selector.is_counted else ():
                    yield text.name, category
