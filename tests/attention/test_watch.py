"""Recording attention weights: only inside the block, only of the watched model, only in its thread."""

import threading

import torch

from regard.attention import Attention, watch

D = 8


def read_once(read: Attention, entries: int = 4, queries: int = 2) -> torch.Tensor:
    x = torch.randn(3, entries, D)
    return read(torch.randn(3, queries, D), read.prepare(x, x))


def test_nothing_is_collected_before_or_after_the_block() -> None:
    read = Attention("cross", D, D, D, 2)
    read_once(read)
    with watch(read) as readings:
        assert len(readings) == 0
        read_once(read)
        assert list(readings) == [""]
        assert readings[""].shape == (3, 2, 2, 4)
    kept = readings[""].clone()
    read_once(read)
    assert torch.equal(readings[""], kept)


def test_nothing_is_collected_after_an_error_in_the_block() -> None:
    read = Attention("cross", D, D, D, 2)
    try:
        with watch(read) as readings:
            raise KeyError
    except KeyError:
        pass
    read_once(read)
    assert len(readings) == 0


def test_a_model_that_is_not_watched_is_not_collected() -> None:
    watched, other = Attention("cross", D, D, D, 2), Attention("cross", D, D, D, 2)
    with watch(watched) as readings:
        read_once(other)
    assert len(readings) == 0


def test_two_models_may_be_watched_at_once() -> None:
    one, other = Attention("cross", D, D, D, 2), Attention("cross", D, D, D, 2)
    with watch(one) as of_one, watch(other) as of_other:
        read_once(one)
        read_once(other, entries=5)
    assert of_other[""].shape[-1] == 5
    assert of_one[""].shape[-1] == 4


def test_another_thread_is_not_collected() -> None:
    read = Attention("cross", D, D, D, 2)
    with watch(read) as readings:
        thread = threading.Thread(target=read_once, args=(read,))
        thread.start()
        thread.join()
    assert len(readings) == 0


def test_readings_hold_no_graph() -> None:
    read = Attention("cross", D, D, D, 2, "additive")
    with watch(read) as readings:
        read_once(read)
    assert not readings[""].requires_grad


def test_layers_are_called_what_the_model_calls_them() -> None:
    layers = torch.nn.ModuleDict({"low": Attention("encoder", D, D, D, 2), "high": Attention("cross", D, D, D, 2)})
    with watch(layers) as readings:
        read_once(layers["high"])
        read_once(layers["low"])
        read_once(layers["low"], entries=6)
    assert list(readings) == ["high", "low"]
    assert readings["low"].shape == (3, 2, 4, 6), "one read below another, the first filled up"
    assert readings["low"][:, :, :2, 4:].abs().max() == 0
