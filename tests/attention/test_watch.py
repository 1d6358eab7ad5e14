"""Recording attention weights: only inside the block, only of the watched model, only in its thread."""

import threading

import torch

from regard.attention import Attention, watch

D = 8


def attend_once(attention: Attention, entries: int = 4, queries: int = 2) -> torch.Tensor:
    x = torch.randn(3, entries, D)
    return attention(torch.randn(3, queries, D), attention.prepare(x, x))


def test_nothing_is_recorded_before_or_after_the_block() -> None:
    attention = Attention("cross", D, D, D, 2)
    attend_once(attention)
    with watch(attention) as readings:
        assert len(readings) == 0
        attend_once(attention)
        assert list(readings) == [""]
        assert readings[""].shape == (3, 2, 2, 4)
    recorded = readings[""].clone()
    attend_once(attention)
    assert torch.equal(readings[""], recorded)


def test_nothing_is_recorded_after_an_error_in_the_block() -> None:
    attention = Attention("cross", D, D, D, 2)
    try:
        with watch(attention) as readings:
            raise KeyError
    except KeyError:
        pass
    attend_once(attention)
    assert len(readings) == 0


def test_unwatched_models_are_not_recorded() -> None:
    watched, unwatched = Attention("cross", D, D, D, 2), Attention("cross", D, D, D, 2)
    with watch(watched) as readings:
        attend_once(unwatched)
    assert len(readings) == 0


def test_two_models_may_be_watched_at_once() -> None:
    first, second = Attention("cross", D, D, D, 2), Attention("cross", D, D, D, 2)
    with watch(first) as first_readings, watch(second) as second_readings:
        attend_once(first)
        attend_once(second, entries=5)
    assert second_readings[""].shape[-1] == 5
    assert first_readings[""].shape[-1] == 4


def test_other_threads_are_not_recorded() -> None:
    attention = Attention("cross", D, D, D, 2)
    with watch(attention) as readings:
        thread = threading.Thread(target=attend_once, args=(attention,))
        thread.start()
        thread.join()
    assert len(readings) == 0


def test_recorded_weights_are_detached() -> None:
    attention = Attention("cross", D, D, D, 2, "additive")
    with watch(attention) as readings:
        attend_once(attention)
    assert not readings[""].requires_grad


def test_readings_have_the_layer_names_of_the_model() -> None:
    layers = torch.nn.ModuleDict({"low": Attention("encoder", D, D, D, 2), "high": Attention("cross", D, D, D, 2)})
    with watch(layers) as readings:
        attend_once(layers["high"])
        attend_once(layers["low"])
        attend_once(layers["low"], entries=6)
    assert list(readings) == ["high", "low"]
    assert readings["low"].shape == (3, 2, 4, 6), "rows of both calls, the first padded"
    assert readings["low"][:, :, :2, 4:].abs().max() == 0
