"""Figures of a model: a diagram of its architecture, and a map of the matrix of its attention
score.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.common.errors import UsageError

if TYPE_CHECKING:
    from regard.common.shapes import Array
    from regard.explain.explanation import Explanation
    from regard.pipeline import FolderTranslator
    from regard.visualisation import Figure
    from regard.visualisation.architecture_diagram import Architecture
    from regard.visualisation.states import States

DEFAULT = "transformer-published"
VOCABULARY = 8000  # tokens to draw, if the recipe derives their number from the data


def draw_model(
    run: Path | None,
    preset_name: str | None,
    config: Path | None,
    settings: Sequence[str],
) -> Figure:
    """Draw the architecture of a run, or of a preset or recipe with changed settings.

    By default it is that of the published Transformer.
    """
    from regard.visualisation.architecture_diagram import layout_architecture

    if run is not None:
        return layout_architecture(_run_architecture(run))
    return layout_architecture(recipe_architecture(preset_name, config, settings))


def _run_architecture(run: Path) -> Architecture:
    from regard.explain.model_architecture import describe_architecture
    from regard.model_folder import load_settings, load_tokenizer

    settings = load_settings(run)
    tokenizer = load_tokenizer(run, settings)
    sizes = (len(tokenizer.source), len(tokenizer.target))
    image = (0, 0)
    if settings.images:
        image = (settings.images.height, settings.images.width)
    return describe_architecture(
        settings.model,
        sizes,
        tokenizer.source is tokenizer.target,
        run.resolve().name,
        image,
    )


def recipe_architecture(
    preset_name: str | None, config: Path | None, settings: Sequence[str]
) -> Architecture:
    """Describe the model of a preset or a TOML file, with the vocabulary size of its tokenizer
    settings.
    """
    from regard.common.settings import merge, override, parse_assignments, read_toml
    from regard.data.images import ImageSizeSettings
    from regard.data.tokenizer import TokenizerSettings
    from regard.explain.model_architecture import describe_architecture
    from regard.models import ModelSettings
    from regard.training import preset

    values = read_toml(config) if config is not None else {}
    default = "" if "model" in values else DEFAULT
    name = preset_name or values.pop("preset", None) or default
    preset_values = preset(name) if name else {}
    values = override(merge(preset_values, values), parse_assignments(settings))

    origin = f"preset {name}" if config is None else str(config)
    tokenizer = TokenizerSettings.parse(values.get("tokenizer", {}), origin)
    sizes = (tokenizer.size or VOCABULARY,) * 2
    images = values.get("data", {}).get("images", {})
    image_size = {key: images[key] for key in ("height", "width") if key in images}
    image = ImageSizeSettings.parse(image_size, origin)
    model = ModelSettings.parse(values["model"], origin)

    file_name = "" if config is None else config.name
    title = " · ".join([name or file_name, *settings])
    pixels = (image.height, image.width)
    return describe_architecture(model, sizes, tokenizer.joint, title, pixels)


def draw_map(
    translator: FolderTranslator, text: str, explanation: Explanation
) -> Figure:
    """Draw the matrix W of a general score as a linear map between encoder and decoder states.

    The states are those of the words of a line; a word of several tokens has the mean of their
    states. Raises UsageError for a model with another score.
    """
    import numpy as np

    from regard.visualisation.language import words
    from regard.visualisation.linear_map import layout_linear_map

    data = explanation.data
    matrix, states = _matrix_and_states(translator, data.states)
    token_words = np.array(states.token_words)
    vectors = states.encoder.reshape(-1, matrix.shape[1])
    end = -1  # word index of the end of sentence
    source_words = (*range(len(data.source)), end)
    keys = np.stack([vectors[token_words == word].mean(0) for word in source_words])

    # The query of a word is the state that predicts its first token; Bahdanau's attention reads
    # with the state of the step before.
    shift = 1 if states.order == "bahdanau" else 0
    first_steps = dict[int, int]()
    for step, word in reversed([*enumerate(data.target_words)]):
        first_steps[word] = step
    query_steps = {
        word: step - shift
        for word, step in first_steps.items()
        if word >= 0 and step >= shift
    }
    names = (
        (*data.source, words("(end)")),
        [data.target[word] for word in query_steps],
    )
    queries = list(query_steps.values())
    title = f"{text.strip()} → {explanation.translation.text}"
    return layout_linear_map(matrix, keys, states.decoder[queries], names, title)


def _matrix_and_states(
    translator: FolderTranslator, states: States | None
) -> tuple[Array, States]:
    """Return the matrix W of the score, and the states.

    Raises UsageError unless the model has one general score between these states.
    """
    from regard.attention import Attention
    from regard.attention.scores import General

    scores = [
        module.score
        for module in translator.model.modules()
        if isinstance(module, Attention) and module.role == "cross"
    ]
    if states is not None and len(scores) == 1 and isinstance(scores[0], General):
        matrix = scores[0].matrix
        _, directions, size = states.encoder.shape
        if matrix.shape == (1, states.decoder.shape[1], directions * size):
            return matrix[0].detach().float().cpu().numpy(), states
    kinds = sorted({type(score).__name__ for score in scores})
    wanted = (
        "one matrix W between states of encoder and decoder belongs to the general score "
        "(preset rnn-luong)"
    )
    raise UsageError(
        f"--view score: {wanted}; this model has {', '.join(kinds) or 'no attention'}"
    )
