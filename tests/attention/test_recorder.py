"""Recording attention weights: only inside the block, only of the watched model, only in its
thread.
"""

import threading
import warnings
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn

from regard.attention import Attention, watch
from regard.common.errors import UsageError

D = 8


def make_attention(role: str = "cross") -> Attention:
    return Attention(role, D, D, D, 2, "additive")


def attend_once(attention: Attention, entries: int = 4) -> torch.Tensor:
    x = torch.randn(3, entries, D)
    return attention(torch.randn(3, 2, D), attention.prepare(x, x))


def test_nothing_is_recorded_before_or_after_the_block() -> None:
    attention = make_attention()
    other = make_attention()
    attend_once(attention)

    with suppress(KeyError), watch(attention) as readings, watch(other) as others:
        assert len(readings) == 0
        attend_once(attention)
        attend_once(other, entries=5)
        raise KeyError

    weights = readings[""]

    assert list(readings) == [""]
    assert weights.shape == (3, 2, 2, 4)
    assert others[""].shape[-1] == 5
    assert not weights.requires_grad

    attend_once(attention)

    assert torch.equal(readings[""], weights)


# Attention of PyTorch's own modules


def encoder(**options: Any) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(D, 2, 16, dropout=0.0, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def expected_weights(
    attention: nn.MultiheadAttention, *args: Any, **masks: Any
) -> torch.Tensor:
    """Return the weights that PyTorch itself gives if it is asked for them."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)

    try:
        weights = attention(
            *args, need_weights=True, average_attn_weights=False, **masks
        )[1]
    finally:
        torch.backends.mha.set_fastpath_enabled(before)

    assert isinstance(weights, torch.Tensor)

    return weights


PADDING = torch.arange(5) >= torch.tensor([[5], [3], [4]])
CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)


@pytest.mark.parametrize(
    ("training", "norm_first", "batch_first", "causal", "padding"),
    [
        (False, False, True, None, None),
        (False, True, True, None, PADDING),
        (False, False, False, CAUSAL, PADDING),
        (True, True, False, CAUSAL, PADDING),
    ],
)
def test_encoders_of_pytorch_are_recorded_and_compute_as_before(
    training: bool,
    norm_first: bool,
    batch_first: bool,
    causal: torch.Tensor | None,
    padding: torch.Tensor | None,
) -> None:
    model = encoder(norm_first=norm_first, batch_first=batch_first).train(training)
    x = torch.randn((3, 5, D) if batch_first else (5, 3, D))

    with torch.no_grad():
        before = model(x, causal, padding)
        with watch(model) as readings, watch(model, scores=True) as scores:
            after = model(x, causal, padding)
        first = model.layers[0]
        query = first.norm1(x) if norm_first else x
        masks = {"attn_mask": causal, "key_padding_mask": padding}
        expected = expected_weights(first.self_attn, query, query, query, **masks)

    assert torch.equal(before, after)
    assert list(readings) == ["layers.0.self_attn", "layers.1.self_attn"]
    torch.testing.assert_close(readings["layers.0.self_attn"], expected)
    torch.testing.assert_close(scores["layers.0.self_attn"].softmax(-1), expected)


def test_a_transformer_of_pytorch_is_recorded_with_dropout_and_its_random_numbers() -> (
    None
):
    model = nn.Transformer(D, 2, 1, 1, 16, dropout=0.5, batch_first=True)
    source = torch.randn(2, 4, D)
    target = torch.randn(2, 3, D)
    torch.manual_seed(3)
    before = model(source, target)
    torch.manual_seed(3)
    with watch(model, gradients=True) as readings:
        after = model(source, target)

    assert torch.equal(before, after)
    assert set(readings) == {
        "encoder.layers.0.self_attn",
        "decoder.layers.0.self_attn",
        "decoder.layers.0.multihead_attn",
    }

    for weights in readings.values():
        assert weights.requires_grad
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))


def test_padding_that_an_encoder_takes_out_has_no_weight() -> None:
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
    assert not recorded[1, :, :, 2:].any()


@pytest.mark.parametrize(
    ("options", "batched"),
    [
        ({"kdim": 6, "vdim": 5}, True),
        ({"add_bias_kv": True}, False),
        ({"add_zero_attn": True}, True),
        ({"bias": False}, False),
    ],
    ids=str,
)
def test_every_kind_of_multihead_attention_is_recorded(
    options: dict[str, Any], batched: bool
) -> None:
    attention = nn.MultiheadAttention(D, 4, batch_first=True, **options).eval()
    query = torch.randn(2, 3, D)
    key = torch.randn(2, 6, options.get("kdim", D))
    value = torch.randn(2, 6, options.get("vdim", D))
    mask = torch.randn(8, 3, 6)
    padding = torch.zeros(2, 6)
    padding[1, 4:] = -9.0
    if not batched:
        query, key, value, padding = query[0], key[0], value[0], padding[0]
        mask = mask[:4]
    masks = {"attn_mask": mask, "key_padding_mask": padding}

    with torch.no_grad():
        before, _ = attention(query, key, value, need_weights=False, **masks)
        with watch(attention) as readings:
            after, _ = attention(query, key, value, need_weights=False, **masks)
        expected = expected_weights(attention, query, key, value, **masks)

    assert torch.equal(before, after)
    torch.testing.assert_close(readings[""], expected if batched else expected[None])


def test_a_layer_is_recorded_though_its_attention_was_called_before() -> None:
    layer = nn.TransformerEncoderLayer(D, 2, 16, batch_first=True).eval()
    x = torch.randn(1, 3, D)

    with torch.inference_mode(), watch(layer) as readings:
        layer.self_attn(x, x, x)
        layer(x)

    assert readings["self_attn"].shape == (1, 2, 6, 3)


def test_modules_of_pytorch_are_as_before_after_the_block() -> None:
    model = encoder(batch_first=True).eval()

    def attributes() -> dict[str, Any]:
        return {name: dict(module.__dict__) for name, module in model.named_modules()}

    before = attributes()
    with watch(model):
        model(torch.randn(1, 2, D))

    assert attributes() == before
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks


# Nothing to record


@pytest.mark.parametrize("kind", ["Regard's", "PyTorch's"])
def test_other_threads_and_models_are_not_recorded(kind: str) -> None:
    def call(model: Any) -> None:
        if kind == "Regard's":
            attend_once(model)
        else:
            model(torch.randn(1, 2, D))

    make: Any = make_attention if kind == "Regard's" else encoder
    watched = make().eval()
    thread = threading.Thread(target=call, args=(watched,))
    message = "watch recorded nothing: no forward pass .* in this thread"

    with pytest.warns(UserWarning, match=message), watch(watched) as readings:  # noqa: PT031
        call(make().eval())
        thread.start()
        thread.join()

    assert len(readings) == 0


class BertSelfAttention(nn.Module):
    """A name that a model of Hugging Face would have."""


@pytest.mark.parametrize(
    ("model", "because"),
    [
        (nn.Linear(2, 2), "watch: Linear has no attention that can be recorded"),
        (nn.Sequential(BertSelfAttention()), "got BertSelfAttention; ask such a model"),
    ],
    ids=["no attention", "other attention"],
)
def test_models_without_attention_are_refused(model: Any, because: str) -> None:
    with pytest.raises(UsageError, match=because), watch(model):
        pass


def test_a_role_that_the_model_has_not_is_named() -> None:
    attention = make_attention()

    with (
        pytest.warns(
            UserWarning, match="Attention has no attention of the role encoder"
        ),
        watch(attention, role="encoder"),
    ):
        attend_once(attention)

    with (
        pytest.raises(
            UsageError, match="wanted encoder, decoder, cross or None, got 'self'"
        ),
        watch(attention, role="self"),
    ):
        pass
