"""Search trace: the search is unchanged, and each candidate has the right score and fate."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from laws.models import entries, kinds, make, sentences

from regard.data.vocabulary import EOS
from regard.models import ModelSettings
from regard.search import SearchSettings, Task, decode
from regard.search.search_trace import SearchRecorder


@torch.no_grad()
@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("settings", kinds(reads=["text"]))
def test_a_traced_search_is_unchanged_and_its_trace_is_complete(
    settings: ModelSettings,
    width: int,
) -> None:
    model = make(settings)
    data = sentences(6)
    source = model.encode(data)
    task = Task(0, entries(data)[0] + 4)
    search = SearchSettings(beam=width)
    (expected,) = decode(model, source, [task], search)
    recorder = SearchRecorder(model)
    (hypotheses,) = decode(model, source, [task], search, on_step=recorder)
    steps = recorder.steps

    assert hypotheses == expected

    for before, after in pairwise(steps):
        kept = [c for c in before.candidates if c.fate == "kept"]
        prefixes = {(*before.prefixes[c.beam], c.token) for c in kept}

        assert prefixes == set(after.prefixes)
        assert len(after.prefixes) <= width

    for hypothesis in hypotheses:
        path = (*hypothesis.ids, EOS)
        total = 0.0

        for t, token in enumerate(path):
            step = steps[t]
            by_prefix = {(*step.prefixes[c.beam], c.token): c for c in step.candidates}
            candidate = by_prefix[path[: t + 1]]
            total += candidate.log_prob

            assert candidate.total_log_prob == pytest.approx(total, abs=1e-4)
            assert candidate.fate == ("ended" if token == EOS else "kept")

        assert total == pytest.approx(hypothesis.log_prob, abs=1e-4)

    for step in steps:
        totals = [c.total_log_prob for c in step.candidates]
        assert totals == sorted(totals, reverse=True)
