"""Figures of a model: its architecture as a diagram, and the matrix of its attention score."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.errors import UsageError

if TYPE_CHECKING:
    from regard.visualisation import Figure

DEFAULT = "transformer-published"
VOCABULARY = 8000
"""Tokens, if the tokenizer is to choose their number from the data."""


def draw_model(run: Path | None, preset_name: str | None, config: Path | None, settings: Sequence[str]) -> Figure:
    """Draw the architecture of a run, or of a preset or recipe with settings on top (without any: as published)."""
    from regard.visualisation.architecture import layout_architecture

    return layout_architecture(_of_run(run) if run is not None else _of_recipe(preset_name, config, settings))


def _of_run(run: Path) -> Any:
    from regard.explain.architecture import describe_architecture
    from regard.model_folder import load_settings, load_tokenizer

    settings = load_settings(run)
    tokenizer = load_tokenizer(run, settings)
    sizes = (len(tokenizer.source), len(tokenizer.target))
    return describe_architecture(settings.model, sizes, tokenizer.source is tokenizer.target, run.resolve().name)


def _of_recipe(preset_name: str | None, config: Path | None, settings: Sequence[str]) -> Any:
    """Describe the model of a preset or TOML file, whose vocabulary has the size that its tokenizer is to have."""
    from regard.common.settings import merge, override, parse_assignments, read_toml
    from regard.data.tokenizer import TokenizerSettings
    from regard.explain.architecture import describe_architecture
    from regard.models import ModelSettings
    from regard.training import preset

    values = read_toml(config) if config is not None else {}
    name = preset_name or values.pop("preset", None) or ("" if "model" in values else DEFAULT)
    values = override(merge(preset(name) if name else {}, values), parse_assignments(settings))
    where = str(config) if config is not None else f"preset {name}"
    tokenizer = TokenizerSettings.parse(values.get("tokenizer", {}), where)
    size = tokenizer.size or VOCABULARY
    sizes = (size, size)
    title = " · ".join([name or (config.name if config is not None else ""), *settings])
    return describe_architecture(ModelSettings.parse(values["model"], where), sizes, tokenizer.joint, title)


def draw_score(run: Path) -> Figure:
    """Draw the matrix of a trained general score, which links the spaces of decoder and encoder."""
    from regard.attention import Attention
    from regard.attention.scores import General
    from regard.model_folder import load_folder
    from regard.visualisation.language import words
    from regard.visualisation.weight_matrix import layout_weight_matrices

    loaded = load_folder(run)
    attentions = [
        module for module in loaded.model.modules() if isinstance(module, Attention) and module.role == "cross"
    ]
    general = [module.score for module in attentions if isinstance(module.score, General)]
    if not general:
        have = sorted({type(module.score).__name__ for module in attentions})
        kinds = f"has {', '.join(have)}" if have else "has no attention"
        raise UsageError(
            f"--view score: a matrix W between decoder and encoder belongs to the general score (preset rnn-luong); "
            f"this model {kinds}"
        )
    matrices = [matrix.numpy() for score in general for matrix in score.matrix.detach().float().cpu()]
    many = len(matrices) > 1
    names = [words("matrix {number}", number=number) if many else "" for number in range(1, len(matrices) + 1)]
    title = words("General score of {run}: W between decoder and encoder states", run=run.resolve().name)
    return layout_weight_matrices(matrices, names, (words("decoder state ↓"), words("encoder state")), title)
