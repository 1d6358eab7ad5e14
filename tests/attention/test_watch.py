"""Recording attention weights: only inside the block, only of the watched model, only in its
thread.
"""

import threading
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from regard.attention import Attention, watch
from regard.common.errors import UsageError

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
    watched = Attention("cross", D, D, D, 2)
    unwatched = Attention("cross", D, D, D, 2)
    with (
        pytest.warns(UserWarning, match="watch recorded nothing: no forward pass"),
        watch(watched) as readings,
    ):
        attend_once(unwatched)
    assert len(readings) == 0


def test_two_models_may_be_watched_at_once() -> None:
    first = Attention("cross", D, D, D, 2)
    second = Attention("cross", D, D, D, 2)
    with watch(first) as first_readings, watch(second) as second_readings:
        attend_once(first)
        attend_once(second, entries=5)
    assert second_readings[""].shape[-1] == 5
    assert first_readings[""].shape[-1] == 4


def test_other_threads_are_not_recorded() -> None:
    attention = Attention("cross", D, D, D, 2)
    thread = threading.Thread(target=attend_once, args=(attention,))
    with pytest.warns(UserWarning, match="in this thread"), watch(attention) as readings:  # noqa: PT031
        thread.start()
        thread.join()
    assert len(readings) == 0


def test_recorded_weights_are_detached() -> None:
    attention = Attention("cross", D, D, D, 2, "additive")
    with watch(attention) as readings:
        attend_once(attention)
    assert not readings[""].requires_grad


def test_readings_have_the_layer_names_of_the_model() -> None:
    layers = torch.nn.ModuleDict(
        {"low": Attention("encoder", D, D, D, 2), "high": Attention("cross", D, D, D, 2)}
    )
    with watch(layers) as readings:
        attend_once(layers["high"])
        attend_once(layers["low"])
        attend_once(layers["low"], entries=6)
    assert list(readings) == ["high", "low"]
    assert readings["low"].shape == (3, 2, 4, 6), "rows of both calls, the first padded"
    assert readings["low"][:, :, :2, 4:].abs().max() == 0


# Attention of PyTorch's own modules


def encoder(layers: int = 2, **options: Any) -> nn.TransformerEncoder:
    given = {"batch_first": True, **options}
    return nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D, 2, 16, dropout=0.0, **given),
        layers,
        enable_nested_tensor="nested" in options,
    )


def expected_weights(attention: nn.MultiheadAttention, *args: Any, **masks: Any) -> torch.Tensor:
    """Return the weights that PyTorch itself gives if it is asked for them."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        weights = attention(*args, need_weights=True, average_attn_weights=False, **masks)[1]
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    assert isinstance(weights, torch.Tensor)
    return weights


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("masked", ["nothing", "padding", "causal", "both"])
def test_encoders_of_pytorch_are_recorded_and_compute_as_before(
    training: bool, norm_first: bool, batch_first: bool, masked: str
) -> None:
    torch.manual_seed(1)
    model = encoder(norm_first=norm_first, batch_first=batch_first).train(training)
    x = torch.randn((3, 5, D) if batch_first else (5, 3, D))
    padding = (
        torch.arange(5) >= torch.tensor([[5], [3], [4]]) if masked in ("padding", "both") else None
    )
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1) if masked in ("causal", "both") else None
    with torch.no_grad():
        before = model(x, causal, padding)
        with watch(model) as readings, watch(model, scores=True) as scores:
            after = model(x, causal, padding)
        assert torch.equal(before, after)
        first = model.layers[0]
        query = first.norm1(x) if norm_first else x
        masks = {"attn_mask": causal, "key_padding_mask": padding}
        expected = expected_weights(first.self_attn, query, query, query, **masks)
    assert list(readings) == ["layers.0.self_attn", "layers.1.self_attn"]
    torch.testing.assert_close(readings["layers.0.self_attn"], expected)
    torch.testing.assert_close(scores["layers.0.self_attn"].softmax(-1), expected)


def test_a_transformer_of_pytorch_is_recorded_with_dropout_and_its_random_numbers() -> None:
    torch.manual_seed(2)
    model = nn.Transformer(D, 2, 1, 1, 16, dropout=0.5, batch_first=True)
    source = torch.randn(2, 4, D)
    target = torch.randn(2, 3, D)
    torch.manual_seed(3)
    before = model(source, target)
    torch.manual_seed(3)
    with watch(model, gradients=True) as readings:
        after = model(source, target)
    assert torch.equal(before, after)
    shapes = {name: tuple(weights.shape) for name, weights in readings.items()}
    assert shapes == {
        "encoder.layers.0.self_attn": (2, 2, 4, 4),
        "decoder.layers.0.self_attn": (2, 2, 3, 3),
        "decoder.layers.0.multihead_attn": (2, 2, 3, 4),
    }
    assert all(weights.requires_grad for weights in readings.values())
    torch.testing.assert_close(readings["encoder.layers.0.self_attn"].sum(-1), torch.ones(2, 2, 4))


def test_padding_that_an_encoder_takes_out_has_no_weight() -> None:
    torch.manual_seed(4)
    layer = nn.TransformerEncoderLayer(D, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()
    x = torch.randn(2, 5, D)
    padding = torch.arange(5) >= torch.tensor([[5], [2]])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype
        before = model(x, src_key_padding_mask=padding)
        with watch(model) as readings:
            after = model(x, src_key_padding_mask=padding)
        attention = model.layers[0].self_attn
        expected = expected_weights(attention, x, x, x, key_padding_mask=padding)
    assert torch.equal(before, after)
    recorded = readings["layers.0.self_attn"]
    torch.testing.assert_close(recorded[0], expected[0])
    torch.testing.assert_close(recorded[1, :, :2], expected[1, :, :2])
    assert recorded[1, :, :, 2:].abs().max() == 0


@pytest.mark.parametrize(
    "options",
    [
        {"kdim": 6, "vdim": 5},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"add_bias_kv": True, "add_zero_attn": True},
        {"bias": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("batched", [True, False])
def test_every_kind_of_multihead_attention_is_recorded(
    options: dict[str, Any], batched: bool
) -> None:
    torch.manual_seed(5)
    attention = nn.MultiheadAttention(D, 4, batch_first=True, **options).eval()
    query = torch.randn(2, 3, D)
    key = torch.randn(2, 6, options.get("kdim", D))
    value = torch.randn(2, 6, options.get("vdim", D))
    mask = torch.randn(8, 3, 6)
    padding = torch.arange(6) >= torch.tensor([[6], [4]])
    if not batched:
        query = query[0]
        key = key[0]
        value = value[0]
        mask = mask[:4]
        padding = padding[0]
    masks = {
        "attn_mask": mask,
        "key_padding_mask": torch.zeros_like(padding, dtype=torch.float).masked_fill(padding, -9),
    }
    with torch.no_grad():
        before, _ = attention(query, key, value, need_weights=False, **masks)
        with watch(attention) as readings:
            after, _ = attention(query, key, value, need_weights=False, **masks)
        expected = expected_weights(attention, query, key, value, **masks)
    assert torch.equal(before, after)
    torch.testing.assert_close(readings[""], expected if batched else expected[None])


def test_a_layer_is_recorded_though_its_attention_was_called_before() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode(), watch(layer) as readings:
        layer.self_attn(x, x, x)
        layer(x)
    assert readings["self_attn"].shape == (1, 2, 6, 3)


def test_modules_of_pytorch_are_as_before_after_the_block() -> None:
    model = encoder().eval()
    before = {name: dict(module.__dict__) for name, module in model.named_modules()}
    with watch(model):
        model(torch.randn(1, 2, D))
    assert {name: dict(module.__dict__) for name, module in model.named_modules()} == before
    assert not torch.nn.modules.module._global_forward_hooks


def test_pytorch_attention_of_other_threads_and_models_is_not_recorded() -> None:
    watched = encoder().eval()
    other = encoder().eval()
    x = torch.randn(1, 2, D)
    with pytest.warns(UserWarning, match="watch recorded nothing"), watch(watched) as readings:  # noqa: PT031
        other(x)
        thread = threading.Thread(target=watched, args=(x,))
        thread.start()
        thread.join()
    assert len(readings) == 0


class BertSelfAttention(nn.Module):
    """A name that a model of Hugging Face would have."""


@pytest.mark.parametrize(
    ("model", "because"),
    [
        (
            nn.Linear(2, 2),
            "watch: Linear has no attention that can be recorded: wanted Regard's Attention or PyTorch's",
        ),
        (
            nn.Sequential(BertSelfAttention()),
            "got BertSelfAttention; ask such a model .*output_attentions=True",
        ),
    ],
    ids=["no attention", "other attention"],
)
def test_models_without_attention_are_refused(model: Any, because: str) -> None:
    with pytest.raises(UsageError, match=because), watch(model):
        pass


def test_a_role_that_the_model_has_not_is_named() -> None:
    attention = Attention("cross", D, D, D, 2)
    with (
        pytest.warns(UserWarning, match="Attention has no attention of the role encoder"),
        watch(attention, role="encoder"),
    ):
        attend_once(attention)
    with (
        pytest.raises(UsageError, match="wanted encoder, decoder, cross or None, got 'self'"),
        watch(attention, role="self"),
    ):
        pass
