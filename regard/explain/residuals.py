"""Chart of the residual connections x + f(x) of a Transformer while it translates one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from regard.common.errors import UsageError
from regard.common.shapes import Tensor
from regard.data.batch import pad
from regard.data.vocabulary import BOS
from regard.explain.explanation import Explanation
from regard.layers.residual import Residual
from regard.models import Batch, Model
from regard.pipeline import FolderTranslator
from regard.visualisation import Chart, Panel, Series
from regard.visualisation.language import words


@torch.inference_mode()
def draw_residuals(
    translator: FolderTranslator, text: str, explanation: Explanation
) -> Chart:
    """Draw the mean length of x and of f(x) at each residual connection x + f(x), over the tokens
    of a translation.

    Raises UsageError for a model without such connections.
    """
    model = translator.model
    readings = explanation.translation.readings
    inputs = dict[nn.Module, Tensor]()
    modules = model.named_modules() if isinstance(model, Model) else ()
    connections = {
        name: module
        for name, module in modules
        if isinstance(module, Residual) and module.connected
    }
    if not isinstance(model, Model) or not connections or readings is None:
        raise UsageError(
            "`view=residual`: wanted a Transformer with residual connections; this model has none"
        )

    def record(module: nn.Module, args: tuple[Tensor, ...], _: Any) -> None:
        inputs[module] = args[0][0].float()

    handles = [
        part.register_forward_hook(record)
        for connection in connections.values()
        for part in connection.children()
    ]
    target = [BOS, *explanation.translation.ids]
    try:
        model.eval()(
            Batch.of([translator.encode(text)], model.device),
            pad([target])[0].to(model.device),
        )
    finally:
        for handle in handles:
            handle.remove()
    sides = dict[str, list[tuple[str, float, float]]]()
    for name, connection in connections.items():
        added = inputs[connection.dropout]
        x = inputs[connection.norm]
        if not connection.pre:
            x = x - added  # a post-norm receives x + f(x)
        side, _, layer, sublayer = name.removesuffix("_residual").split(".")
        sublayer_name = sublayer.replace("feed", "feed-").removesuffix("_attention")
        label = f"{int(layer) + 1} {words(sublayer_name)}"
        x_length = float(x.norm(dim=-1).mean())
        added_length = float(added.norm(dim=-1).mean())
        sides.setdefault(side, []).append((label, x_length, added_length))
    title = words(
        "Residual connections: what passes by, and the difference that is added"
    )
    panels = tuple(
        _panel(words(f"{side}: mean length of the vectors"), rows)
        for side, rows in sides.items()
    )
    return Chart(title, panels, f"{text.strip()} → {explanation.translation.text}")


def _panel(title: str, rows: Sequence[tuple[str, float, float]]) -> Panel:
    """Draw the lengths of x and of f(x) by sublayer, with a line at zero."""
    x_points = tuple((n, length) for n, (_, length, _) in enumerate(rows))
    added_points = tuple((n, length) for n, (_, _, length) in enumerate(rows))
    series = (
        Series(words("x, which passes by"), x_points),
        Series(words("f(x), which is added"), added_points),
    )
    labels = tuple(label for label, _, _ in rows)
    zero = ((-0.5, 0.0), (len(rows) - 0.5, 0.0))
    return Panel(title, words("layer and sublayer"), series, labels, zero)
