"""Figures of a model: its architecture as a diagram, and the matrix of its attention score as a
map.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.errors import UsageError

if TYPE_CHECKING:
    from regard.explain.explanation import Explanation
    from regard.pipeline import FolderTranslator
    from regard.visualisation import Figure

DEFAULT = "transformer-published"
VOCABULARY = 8000  # tokens, if the tokenizer is to choose their number from the data


def draw_model(
    run: Path | None,
    preset_name: str | None,
    config: Path | None,
    settings: Sequence[str],
) -> Figure:
    """Draw the architecture of a run, or of a preset or recipe with settings on top (without any:
    as published).
    """
    from regard.visualisation.architecture_diagram import layout_architecture

    return layout_architecture(
        _of_run(run) if run is not None else _of_recipe(preset_name, config, settings)
    )


def _of_run(run: Path) -> Any:
    from regard.explain.model_architecture import describe_architecture
    from regard.model_folder import load_settings, load_tokenizer

    settings = load_settings(run)
    tokenizer = load_tokenizer(run, settings)
    sizes = (len(tokenizer.source), len(tokenizer.target))
    image = (
        (settings.images.height, settings.images.width) if settings.images else (0, 0)
    )
    return describe_architecture(
        settings.model,
        sizes,
        tokenizer.source is tokenizer.target,
        run.resolve().name,
        image,
    )


def _of_recipe(
    preset_name: str | None, config: Path | None, settings: Sequence[str]
) -> Any:
    """Describe the model of a preset or TOML file, whose vocabulary has the size that its tokenizer
    is to have.
    """
    from regard.common.settings import merge, override, parse_assignments, read_toml
    from regard.data.images import ImageSizeSettings
    from regard.data.tokenizer import TokenizerSettings
    from regard.explain.model_architecture import describe_architecture
    from regard.models import ModelSettings
    from regard.training import preset

    values = read_toml(config) if config is not None else {}
    name = (
        preset_name
        or values.pop("preset", None)
        or ("" if "model" in values else DEFAULT)
    )
    values = override(
        merge(preset(name) if name else {}, values), parse_assignments(settings)
    )
    where = str(config) if config is not None else f"preset {name}"
    tokenizer = TokenizerSettings.parse(values.get("tokenizer", {}), where)
    sizes = (tokenizer.size or VOCABULARY,) * 2
    title = " · ".join([name or (config.name if config is not None else ""), *settings])
    images = values.get("data", {}).get("images", {})
    image = ImageSizeSettings.parse(
        {n: images[n] for n in ("height", "width") if n in images}, where
    )
    model = ModelSettings.parse(values["model"], where)
    pixels = (image.height, image.width)
    return describe_architecture(model, sizes, tokenizer.joint, title, pixels)


def draw_map(
    translator: FolderTranslator, text: str, explanation: Explanation
) -> Figure:
    """Draw the matrix of a general score as a map between the spaces of encoder and decoder, by the
    states of a line.

    A word of several tokens is drawn by the mean of its states. Raises UsageError for a model with
    another score.
    """
    import numpy as np

    from regard.attention import Attention
    from regard.attention.scores import General
    from regard.visualisation.language import words
    from regard.visualisation.linear_map import layout_linear_map

    attentions = [
        each
        for each in translator.model.modules()
        if isinstance(each, Attention) and each.role == "cross"
    ]
    data = explanation.data
    score = attentions[0].score if len(attentions) == 1 else None
    states = data.states
    sizes = score.matrix.shape if isinstance(score, General) else ()
    K, N, M = (
        (0, 0, 0)
        if states is None
        else (*states.encoder.shape[1:], states.decoder.shape[1])
    )
    if states is None or not isinstance(score, General) or sizes != (1, M, K * N):
        kinds = (
            ", ".join(sorted({type(each.score).__name__ for each in attentions}))
            or "no attention"
        )
        wanted = (
            "one matrix W between states of encoder and decoder belongs to the general score "
            "(preset rnn-luong)"
        )
        raise UsageError(f"--view score: {wanted}; this model has {kinds}")
    of_token = np.array(states.token_words)
    vectors = states.encoder.reshape(-1, K * N)
    keys = np.stack(
        [vectors[of_token == word].mean(0) for word in (*range(len(data.source)), -1)]
    )
    steps = {
        word: step - (states.order == "bahdanau")
        for step, word in reversed([*enumerate(data.target_words)])
    }
    # The states that ask for a word's begin.
    first = {word: step for word, step in steps.items() if word >= 0 <= step}
    names = ((*data.source, words("(end)")), [data.target[word] for word in first])
    queries = [*first.values()]
    matrix = score.matrix[0].detach().float().cpu().numpy()
    title = f"{text.strip()} → {explanation.translation.text}"
    return layout_linear_map(matrix, keys, states.decoder[queries], names, title)
