"""A recorded search: what it finds is what a search finds, and what is said of each piece is so."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from laws.models import entries, make, pairs, sentences

from regard.data.vocabulary import EOS
from regard.models import ModelSettings
from regard.search import SearchSettings, Task, decode
from regard.search.search_trace import trace_search


@torch.no_grad()
@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("settings", pairs(1, reads=["text"]))
def test_recording_changes_nothing_and_tells_all(settings: ModelSettings, width: int) -> None:
    model, data = make(settings), sentences(6)
    source, task = model.encode(data), Task(0, entries(data)[0] + 4)
    search = SearchSettings(beam=width)
    (plain,) = decode(model, source, [task], search)
    found, moments = trace_search(model, source, task, search)
    assert found == plain
    for before, after in pairwise(moments):
        kept = {(*before.prefixes[c.beam], c.token) for c in before.candidates if c.fate == "kept"}
        assert kept == set(after.prefixes), "what was kept is what is open next"
        assert len(after.prefixes) <= width
    for best in found:
        path = (*best.ids, EOS)
        total = 0.0
        for t, piece in enumerate(path):
            moment = moments[t]
            taken = next(c for c in moment.candidates if (*moment.prefixes[c.beam], c.token) == path[: t + 1])
            total += taken.log_prob
            assert taken.total_log_prob == pytest.approx(total, abs=1e-4)
            assert taken.fate == ("ended" if piece == EOS else "kept")
        assert total == pytest.approx(best.log_prob, abs=1e-4)
    assert all(list(m.candidates) == sorted(m.candidates, key=lambda c: -c.total_log_prob) for m in moments)
