"""Configuration: strict, frozen settings (pydantic), read from TOML files and `key=value`
overrides.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import pydantic
from pydantic.fields import FieldInfo

from regard.common.errors import ConfigurationError
from regard.common.plugins import Registry
from regard.common.reading import DEPTH, file_bytes, parse_toml

S = TypeVar("S", bound="Settings")

# Largest values of settings, by the quantity that they count. They exceed any sensible use, and
# prevent overflow.
COUNT = 1_000_000_000  # updates, pairs, tokens, pixels of a corpus or a run
MINUTES = 10_000_000  # 19 years
FACTOR = 1_000  # weights of losses, rates and penalties, ratios
LAYERS = 1_000
SIZE = 65_536  # of a vector
LENGTH = 100_000  # positions
TOKENS = 10_000  # limits of a target that do not depend on its source
VOCABULARY = 1_000_000
MAX_COMPARED = 250  # hypotheses that beam search or minimum Bayes risk compares
MAX_SAMPLES = 20_000
SIDE = 8_192  # pixels, or rows and columns
PARTS = 1_024  # parts of a batch, each with its own thread or process


OTHER_NAMES = {
    "batching.tokens": "batch_size max_tokens mini_batch mini_batch_words "
    "per_device_train_batch_size",
    "batching.micro_batches": "accum_count batch_multiplier gradient_accumulation_steps "
    "optimizer_delay update_freq",
    "schedule.peak": "learn_rate learning_rate lr max_lr",
    "schedule.warmup": "learning_rate_warmup lr_warmup warmup_steps warmup_updates",
    "training.updates": "after_batches epochs max_epoch max_epochs max_steps max_update "
    "num_train_epochs train_steps",
    "training.patience": "early_stop early_stopping early_stopping_patience",
    "training.validate_every": "eval_steps valid_freq valid_steps validate_interval "
    "validation_freq",
    "training.keep_checkpoints": "keep_best_ckpts keep_checkpoint keep_last_epochs "
    "save_total_limit",
    "training.max_grad_norm": "clip_grad_norm clip_gradients clip_norm",
    "tokenizer.size": "dim_vocabs src_vocab_size tgt_vocab_size voc_limit vocab_size",
    "model.encoder.layers": "enc_depth enc_layers encoder_layers layers num_hidden_layers "
    "num_layers",
    "model.encoder.size": "d_model dim_emb embedding_dim hidden_dim hidden_size rnn_size "
    "word_vec_size",
    "model.encoder.heads": "attention_heads nhead num_attention_heads num_heads transformer_heads",
    "model.encoder.feedforward": "d_ff ff_size ffn_dim intermediate_size transformer_dim_ffn "
    "transformer_ff",
    "model.encoder.dropout": "dropout dropout_rate transformer_dropout",
    "search.beam": "beam_size beam_width num_beams",
    "search.length_penalty": "alpha lenpen normalize",
    "search.no_repeat_ngram": "block_ngram_repeat no_repeat_ngram_size",
}
"""Names of our settings in fairseq, OpenNMT, Hugging Face, JoeyNMT and Marian."""


class Settings(pydantic.BaseModel):
    """Base class of all settings: immutable. An unknown key is an error that names the nearest
    known key.
    """

    model_config = pydantic.ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    @classmethod
    def parse(cls: type[S], values: Mapping[str, object], origin: str) -> S:
        """Validate values read from `origin`, such as a file. Raises ConfigurationError with all
        causes.
        """
        try:
            return cls.model_validate(dict(values))
        except pydantic.ValidationError as problem:
            raise ConfigurationError(*_causes(cls, problem, origin)) from None

    def with_values(self: S, **values: object) -> S:
        """Return a copy with some fields replaced, validated like the original."""
        return type(self).parse({**self.model_dump(), **values}, type(self).__name__)


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file. Raises ConfigurationError if it is missing or not valid TOML."""
    try:
        return parse_toml(file_bytes(Path(path)).decode("utf-8-sig"))
    except OSError as problem:
        raise ConfigurationError(
            f"{path}: cannot be read ({problem.strerror}); give the path of a TOML file"
        ) from None
    except UnicodeDecodeError as problem:
        raise ConfigurationError(
            f"{path}: not UTF-8 at byte {problem.start}; save the file as UTF-8"
        ) from None
    except ValueError as problem:
        raise ConfigurationError(f"{path}: not valid TOML: {problem}") from None


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Parse texts `dotted.key=value` into settings. A value that is not TOML is plain text."""
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigurationError(
                f"`set={assignment}`: wanted key=value, such as batching.tokens=2048"
            )
        if key.count(".") >= DEPTH:
            raise ConfigurationError(
                f"`set={key[:40]}…`: a key of {key.count('.') + 1:,} parts; no setting has so many"
            )
        settings.pop(key.strip(), None)
        settings[key.strip()] = _parse_value(text.strip())
    return settings


def override(
    values: Mapping[str, object], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `values` changed by settings with dotted keys, in order."""
    result = dict(values)
    for key, value in settings.items():
        nested = value
        for part in reversed(key.split(".")):
            nested = {part: nested}
        result = merge(result, nested)
    return result


def merge(base: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, Any]:
    """Merge nested tables; if both have a key, the value in `changes` wins.

    A table whose `kind` changes is replaced entirely, since the settings of another kind do not
    apply.
    """
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if (
            isinstance(old, Mapping)
            and isinstance(value, Mapping)
            and not _kind_changes(old, value)
        ):
            result[key] = merge(cast(Mapping[str, object], old), value)
        else:
            result[key] = value
    return result


def _kind_changes(old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    return "kind" in old and "kind" in new and old["kind"] != new["kind"]


def _parse_value(text: str) -> object:
    try:
        return parse_toml(f"x = {text}")["x"]
    except ValueError:
        return text


def _causes(
    cls: type[Settings], problem: pydantic.ValidationError, origin: str
) -> list[str]:
    """Return a sentence for each validation error, with the dotted key of the setting."""
    known = sorted(set(_keys(cls)))
    parts = {part for key in known for part in key.split(".")}
    causes = []
    for error in problem.errors():
        *above, last = [str(part) for part in error["loc"]] or [""]
        # pydantic adds the kind of a table to the path, although it is not a key.
        path = [part for part in above if part in parts]
        if last in parts or error["type"] == "extra_forbidden":
            path.append(last)
        key = ".".join(path)
        if error["type"] == "extra_forbidden":
            if key in known:
                table = key.rpartition(".")[0]
                causes.append(
                    f"{origin}: {key} is a setting of another kind of {table}; leave it out, or "
                    f"set {table}.kind"
                )
            else:
                causes.append(
                    f"{origin}: unknown setting {key!r}{_suggestion(key, known)}"
                )
        elif error["type"] == "value_error":
            message = error["msg"].removeprefix("Value error, ")
            causes.append(f"{origin}: {key + ': ' if key else ''}{message}")
        else:
            message = error["msg"][0].lower() + error["msg"][1:]
            causes.append(
                f"{origin}: {key}: {message}, got {_excerpt(error.get('input'))}"
            )
    return causes


def _excerpt(value: object) -> str:
    """Return the representation of a value, shortened."""
    try:
        text = repr(value)
    except Exception:
        # A user-defined object may raise any exception, as does a number of over 4,300 digits.
        return f"{type(value).__name__} that is too long to be written"
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text):,} characters)"


def _suggestion(key: str, known: list[str]) -> str:
    """Suggest the setting that another toolkit calls by this key, or a similar one, else list its
    table.

    Similar settings are found by their full key, or else by its last part.
    """
    table, _, last = key.rpartition(".")
    translated = ""
    for name, others in OTHER_NAMES.items():
        if last.replace("-", "_") in others.split():
            translated = name
            break
    similar = [name for name in known if f".{translated}".endswith(f".{name}")]
    if not similar:
        similar = difflib.get_close_matches(key, known, 1, 0.75)
    if not similar:
        by_last = {name.rsplit(".", 1)[-1]: name for name in reversed(known)}
        matches = difflib.get_close_matches(last, by_last, 1, 0.6)
        similar = [by_last[name] for name in matches]
    if similar:
        return f"; did you mean {similar[0]!r}?"

    same_table = [name for name in known if name.rpartition(".")[0] == table]
    if not same_table:
        same_table = [name for name in known if "." not in name]
    return f"; known are {', '.join(same_table)}"


def _keys(cls: type[Settings], prefix: str = "") -> Iterable[str]:
    """Yield the dotted keys of all settings in a class."""
    for name, field in cls.model_fields.items():
        yield prefix + name
        for nested in nested_settings(field):
            yield from _keys(nested, f"{prefix}{name}.")


def nested_settings(field: FieldInfo) -> Iterable[type[Settings]]:
    """Yield the settings classes that the values of a field may have: one for each kind."""
    registries = [item for item in field.metadata if isinstance(item, Registry)]
    for registry in registries:
        yield from (key for key in registry if not isinstance(key, str))
    if not registries:
        yield from _nested(field.annotation)


def _nested(annotation: object) -> Iterable[type[Settings]]:
    """Yield the settings classes in an annotation, such as those of a union."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _nested(part)
