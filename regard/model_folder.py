"""Model folder on disk: config.json, vocabularies, and weights as safetensors. Nothing is
unpickled.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import struct
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from pydantic import Field, field_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.attention.alignment import SYMMETRIES
from regard.attention.alignment_choice import AlignmentChoice
from regard.common.atomic import atomic_file, file_sha256, write_text
from regard.common.checksums import (
    SEAL,
    SHA256,
    VOCABULARIES,
    json_digest,
    sealed,
    stored_digest,
    tensor_digest,
    why_broken,
)
from regard.common.errors import ModelFolderError, RegardError
from regard.common.reading import (
    check_links,
    file_bytes,
    is_file_name,
    is_runtime_file,
    parse_json,
    reason_of,
    tensor_metadata,
    tensor_shapes,
)
from regard.common.settings import Settings
from regard.data.images import ImageSizeSettings
from regard.data.language_id import MAX_SIZE, LanguageId
from regard.data.languages import Languages
from regard.data.seen_token_pairs import SeenTokenPairs
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.models import Model, ModelSettings, build
from regard.search import SearchSettings
from regard.text.quality import Quality

CONFIG = "config.json"
LEARNT_LAST = ("familiar", "quality")
"""Settings that are learnt at the end of training, and are no part of what a model is."""
WEIGHTS = "model.safetensors"
ALIGNMENT = "alignment.json"
LANGUAGES = "languages.json"
READ = (
    CONFIG,
    WEIGHTS,
    ALIGNMENT,
    LANGUAGES,
    "README.md",
    "train.toml",
    "journal.jsonl",
)
"""Names of the files that are read from a model folder."""
FORMAT: Final = 1
"""Version of the folder's format; a folder of another version is refused."""
_REMEDY = (
    "copy the folder again from where the model was trained, or train the model again"
)
_UNREADABLE = (
    SafetensorError,
    OSError,
    RuntimeError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
)


class Seal(Settings):
    """The manifest of a model folder, part of `config.json`, which describes the other files.

    Weights and `alignment.json` are replaced while the folder is in use. They carry their own
    digest, and the `id` of their folder, so that no two files ever have to be replaced at once.
    """

    id: str = ""
    files: dict[str, str] = Field(
        {}, description="SHA-256 of the vocabularies by file name"
    )
    alignment: bool = Field(
        False,
        description="whether a head was chosen for alignments, so the file has to be there",
    )
    sha256: str = Field("", description="of all else in config.json")

    @field_validator("files")
    @classmethod
    def _check_names(cls, files: dict[str, str]) -> dict[str, str]:
        """Refuse names that lead out of the folder."""
        for name in files:
            if not is_file_name(name):
                raise ValueError(
                    f"wanted names of files in the folder, got {name[:100]!r}"
                )
        return files


class FolderSettings(Settings):
    """The content of `config.json`, by which the model is built and decodes."""

    format: Literal[1] = FORMAT
    model: ModelSettings
    tokenizer: TokenizerSettings
    search: SearchSettings
    images: ImageSizeSettings | None = Field(
        None, description="size of a captioner's images; none: it reads text"
    )
    languages: Languages = Field(
        Languages(), description="languages of source and target, if known"
    )
    familiar: SeenTokenPairs | None = Field(
        None,
        description="pairs of source tokens that training has seen; none: too many",
    )
    quality: Quality | None = Field(
        None,
        description="calibration of the probability that a translation is good; none: unknown",
    )
    seal: Seal = Seal()


@dataclass(frozen=True)
class ModelFolder:
    """A model folder in memory."""

    settings: FolderSettings
    tokenizer: Tokenizer
    model: Model


def named_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters by name; tied parameters have one name."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def save_folder(
    folder: Path,
    settings: FolderSettings,
    tokenizer: Tokenizer,
    origin: str = "",
    identity: str = "",
) -> None:
    """Write the parts that training does not change, settings and vocabularies; `config.json` is
    last.

    `origin`, a recipe or a digest of weights, distinguishes this folder from others with the same
    settings and vocabularies. `identity` is its id if its weights exist already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Without this file the folder is invalid, so nobody can load a mixture of two models.
    (folder / CONFIG).unlink(missing_ok=True)
    tokenizer.save(folder)
    files = {
        name: hashlib.sha256(content).hexdigest()
        for name, content in tokenizer.files.items()
    }
    if not identity:
        content = [settings.model_dump(exclude={SEAL, *LEARNT_LAST}), files, origin]
        identity = json_digest(content)[:32]
    write_settings(folder, settings.with_values(seal={"id": identity, "files": files}))


def write_settings(folder: Path, settings: FolderSettings) -> None:
    """Write `config.json` with its seal."""
    optional = ("images", *LEARNT_LAST)
    unused = {name for name in optional if getattr(settings, name) is None}
    values = sealed(settings.model_dump(exclude=unused))
    write_text(folder / CONFIG, json.dumps(values, ensure_ascii=False, indent=2) + "\n")


def save_weights(
    folder: Path,
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write the weights of a folder that already has its settings. Raises OSError."""
    save_tensors(
        folder / WEIGHTS, tensors, {**(metadata or {}), "model": folder_id(folder)}
    )


def folder_id(folder: Path) -> str:
    """Return the id of a model folder; empty if its settings cannot be read."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        return str(parse_json(file_bytes(folder / CONFIG))[SEAL]["id"])
    return ""


def weights_id(folder: Path) -> str:
    """Return the id of the model folder that the weights belong to; empty if they cannot be
    read.
    """
    return tensor_metadata(folder / WEIGHTS).get("model", "")


def save_tensors(
    path: Path,
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors and metadata atomically, with the digest of both, and sync them to disk.

    Raises OSError if that fails, and leaves the previous file untouched.
    """
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    metadata = {
        name: value for name, value in (metadata or {}).items() if name != SHA256
    }
    try:
        with atomic_file(path, durable=True) as temporary:
            temporary.touch()
            # Keep the user's default mode: safetensors writes files that only the owner can read.
            mode = temporary.stat().st_mode
            digest = tensor_digest(tensors, metadata)
            save_file(tensors, temporary, {**metadata, SHA256: digest})
            _sort_metadata(temporary)
            temporary.chmod(mode)
    except SafetensorError as problem:
        raise OSError(
            errno.EIO, f"could not be written ({problem})", str(path)
        ) from None


def _sort_metadata(path: Path) -> None:
    """Sort the metadata in a safetensors header in place, since safetensors writes it in varying
    order.
    """
    with path.open("r+b") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        if len(text) <= length:
            file.seek(8)
            file.write(text.ljust(length))


def load_tensors(path: Path, *, foreign: bool = False) -> dict[str, torch.Tensor]:
    """Read tensors; a `foreign` file needs no digest. Raises ModelFolderError if it is missing or
    damaged.
    """
    return _read_tensors(path, digest="optional" if foreign else "needed")[0]


def _read_tensors(
    path: Path,
    device: str = "cpu",
    digest: Literal["needed", "optional", "ignored"] = "needed",
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read tensors and metadata.

    The digest is computed from the tensors in memory, so the file is read only once.
    """
    if digest != "optional":
        check_links(path.parent, path.name)
    if not path.is_file():
        unfinished = ""
        if path.name == WEIGHTS and (path.parent / "train.toml").is_file():
            unfinished = (
                f"if training was stopped, `regard train --out {path.parent} --resume` writes it; "
                "else "
            )
        raise ModelFolderError(f"{path}: missing; {unfinished}{_REMEDY}")
    try:
        with safe_open(path, "pt", device=device) as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            metadata: dict[str, str] = dict(file.metadata() or {})
        stored = metadata.pop(SHA256, None)
        actual = stored
        if digest != "ignored" and stored is not None:
            actual = tensor_digest(tensors, metadata)
    except _UNREADABLE as problem:
        raise ModelFolderError(f"{path}: damaged ({problem}); {_REMEDY}") from None
    if stored is None and digest == "needed":
        raise ModelFolderError(
            f"{path}: not sealed (it has no SHA-256); {_seal_remedy(path.parent)}"
        )
    if actual != stored:
        raise ModelFolderError(
            f"{path}: damaged or changed (its content does not match its SHA-256); "
            f"{_seal_remedy(path.parent)}"
        )
    return tensors, metadata


def _seal_remedy(folder: Path) -> str:
    return f"{_REMEDY}; if the change was on purpose, seal it with `regard doctor {folder} --seal`"


_RANDOM = {
    torch.Tensor.uniform_,
    torch.Tensor.normal_,
    nn.init.uniform_,
    nn.init.normal_,
    nn.init.kaiming_uniform_,
}
"""Functions that fill a tensor with random numbers. PyTorch passes the mode those of `nn.init` as a
whole, and what these call no more.
"""


class _WithoutInitialisation(TorchFunctionMode):
    """Mode of PyTorch that skips random initialisation, since weights are loaded afterwards.

    On the device `meta` it also skips `div_` and `mul_`, which would import a library for symbolic
    mathematics.
    """

    def __torch_function__(
        self, func: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> object:
        if func in _RANDOM:
            return args[0] if args else kwargs["tensor"]
        if func in (torch.Tensor.div_, torch.Tensor.mul_) and args[0].is_meta:
            return args[0]
        if func is torch.randn:
            func = torch.zeros
        return func(*args, **(kwargs or {}))


def load_folder(folder: str | Path, device: str = "cpu") -> ModelFolder:
    """Load a model folder, such as a run folder, in evaluation mode."""
    folder = Path(folder)
    settings = load_settings(folder)
    # The weights are read and hashed while the model is built.
    with ThreadPoolExecutor(1) as background:
        weights = background.submit(read_weights, folder, settings)
        tokenizer = load_tokenizer(folder, settings)
        vocabularies = len(tokenizer.source), len(tokenizer.target)
        try:
            check_shapes(settings, vocabularies, folder / WEIGHTS)
        except ModelFolderError:
            weights.result()  # if the file is damaged, this raises that error instead
            raise
        # Networks of timm compute while they are built, so they need initial weights.
        is_text = settings.model.encoder.reads == "text"
        with _WithoutInitialisation() if is_text else contextlib.nullcontext():
            model = build(settings.model, *vocabularies, settings.tokenizer.joint)
        load_weights(model, weights.result(), folder / WEIGHTS)
    return ModelFolder(settings, tokenizer, model.to(device).eval())


def load_tokenizer(folder: Path, settings: FolderSettings) -> Tokenizer:
    """Read the vocabularies. Raises ModelFolderError if they do not match the seal."""
    return Tokenizer.load(
        folder, settings.tokenizer, settings.seal.files, _seal_remedy(folder)
    )


def read_weights(folder: Path, settings: FolderSettings) -> dict[str, torch.Tensor]:
    """Read the weights of a folder.

    Raises ModelFolderError if they are missing, damaged, or belong to another folder.
    """
    path = folder / WEIGHTS
    tensors, metadata = _read_tensors(path)
    if metadata.get("model", "") != settings.seal.id:
        raise ModelFolderError(
            f"{path}: the weights are of another model than {CONFIG}; {_seal_remedy(folder)}"
        )
    return tensors


def check_shapes(
    settings: FolderSettings, vocabularies: tuple[int, int], path: Path
) -> None:
    """Raise ModelFolderError, with all causes, if the header of a file describes weights of another
    model.

    The check takes no memory for the model, whatever its size. A damaged header is not reported
    here, but when the file is read.
    """
    stored = tensor_shapes(path)
    # Networks of timm compute while they are built, so they cannot be built without weights.
    if stored is None or settings.model.encoder.kind == "timm":
        return
    _compare(
        shapes_of(settings.model, vocabularies, settings.tokenizer.joint), stored, path
    )


def shapes_of(
    model: ModelSettings, vocabularies: tuple[int, int], joint: bool
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a model's weights by name, without memory for the weights."""
    with without_weights():
        return _shapes(dict(build(model, *vocabularies, joint).named_parameters()))


@contextlib.contextmanager
def without_weights() -> Iterator[None]:
    """Build modules in the block whose weights have shapes, but take neither memory nor random
    numbers.
    """
    with torch.device("meta"), _WithoutInitialisation():
        yield


def load_weights(
    model: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path
) -> None:
    """Copy weights into a model. Raises ModelFolderError, with all causes, if they do not fit
    exactly.
    """
    check_weights(model, tensors, path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[name])


def check_weights(
    model: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path
) -> None:
    """Raise ModelFolderError, with all causes, if weights do not fit the model exactly or are not
    finite.
    """
    not_finite = [
        name
        for name, tensor in tensors.items()
        if not (tensor.is_floating_point() and torch.isfinite(tensor.float()).all())
    ]
    if not_finite:
        raise ModelFolderError(
            f"{path}: damaged: weights {not_finite[0]} are not finite (NaN or infinity); {_REMEDY}"
        )
    _compare(_shapes(dict(model.named_parameters())), _shapes(tensors), path)


def _shapes(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _compare(
    wanted: Mapping[str, tuple[int, ...]],
    stored: Mapping[str, tuple[int, ...]],
    path: Path,
) -> None:
    """Raise ModelFolderError, with all causes, if names or shapes of weights differ from the
    model's.
    """
    problems = [
        f"{path}: no weights called {name}" for name in wanted if name not in stored
    ]
    problems += [
        f"{path}: weights {name} belong to no part of this model"
        for name in stored
        if name not in wanted
    ]
    for name in wanted.keys() & stored.keys():
        if wanted[name] != stored[name]:
            shapes = f"wanted {wanted[name]}, got {stored[name]}"
            problems.append(f"{path}: weights {name} have another shape: {shapes}")
    ModelFolderError.raise_all(
        sorted(problems)[:8],
        f"the weights are of another model than {CONFIG}; {_REMEDY}",
    )


def load_settings(folder: Path) -> FolderSettings:
    """Read `config.json`. Raises ModelFolderError if it is missing, damaged or of another format
    version.
    """
    path = folder / CONFIG
    values = _read_settings(folder)
    settings = FolderSettings.parse(values, str(path))
    problem = why_broken(values)
    if problem:
        raise ModelFolderError(
            f"{path}: damaged or changed ({problem}); {_seal_remedy(folder)}"
        )
    return settings


def _read_settings(folder: Path) -> dict[str, object]:
    path = folder / CONFIG
    check_links(folder, *READ)
    if is_runtime_file(folder):
        raise ModelFolderError(
            f"{folder}: is a runtime file, which translates and no more; give the run folder that "
            "it was exported from"
        )
    if not folder.is_dir():
        what = "a file, and no model" if folder.exists() else "no such folder"
        raise ModelFolderError(
            f"{folder}: {what}; give the folder that `regard train --out` wrote"
        )
    if any("\ud800" <= character <= "\udfff" for character in str(path)):
        raise ModelFolderError(
            f"{folder}: the name is not UTF-8, and weights cannot be read by such names; rename it"
        )
    if not path.is_file():
        raise ModelFolderError(
            f"{path}: missing, so {folder} is not a model folder; {_REMEDY}"
        )
    try:
        values = parse_json(file_bytes(path))
    except (OSError, ValueError) as problem:
        raise ModelFolderError(
            f"{path}: damaged, not JSON ({problem}); {_REMEDY}"
        ) from None
    if not isinstance(values, dict):
        raise ModelFolderError(
            f"{path}: damaged, wanted a table, got {type(values).__name__}; {_REMEDY}"
        )
    version = values.get("format")
    if version != FORMAT:
        if version is None:
            version = "unknown"
        raise ModelFolderError(
            f"{path}: written by another version of Regard (format {version}; this one reads "
            f"{FORMAT}): train or export it again"
        )
    return values


def model_fingerprint(folder: Path) -> str:
    """Return a SHA-256 of everything that a model computes with: settings, vocabularies and
    weights.

    It is computed from the digests that the files carry.
    """
    settings = load_settings(folder)
    weights = stored_digest(folder / WEIGHTS)
    return json_digest(
        [settings.model_dump(exclude={SEAL, "languages"}), settings.seal.files, weights]
    )


def save_alignment(folder: Path, choice: Mapping[str, object]) -> None:
    """Write the choice of the layer and head that show alignments best (`AlignmentChoice`).

    `config.json` records afterwards that the file has to exist, so the two agree at every moment.
    """
    check_links(folder, CONFIG, ALIGNMENT, written=True)
    values = sealed(choice, id=folder_id(folder))
    write_text(folder / ALIGNMENT, json.dumps(values, indent=2) + "\n")
    if not (folder / CONFIG).is_file():
        return
    settings = load_settings(folder)
    if not settings.seal.alignment:
        seal = {**settings.seal.model_dump(), "alignment": True}
        write_settings(folder, settings.with_values(seal=seal))


def load_alignment(folder: Path, seal: Seal | None = None) -> AlignmentChoice | None:
    """Read the folder's choice of the layer and head that show alignments best.

    Returns None if there is none or, with a warning, if it is damaged.
    """
    path = folder / ALIGNMENT
    seal = seal or Seal()
    if not path.is_file() and not seal.alignment:
        return None
    try:
        return _read_alignment(path, seal.id)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        cause = "missing, although a head was chosen,"
        if path.is_file():
            cause = f"damaged ({problem})"
        warnings.warn(
            f"{path}: {cause} and not used (`regard doctor {folder} --seal` takes the folder as "
            "it is now); alignments come from the middle layer",
            stacklevel=2,
        )
        return None


def _read_alignment(path: Path, identity: str | None) -> AlignmentChoice:
    """Read an alignment choice. Given the id of a folder, check its seal and that it belongs to the
    folder.
    """
    values = parse_json(file_bytes(path))
    symmetry = values.get("symmetry")
    with_reverse = values.get("with_reverse", "grow-diag")
    if symmetry not in (None, *SYMMETRIES):
        raise ValueError(
            f"symmetry: wanted {', '.join(SYMMETRIES)} or null, got {symmetry!r}"
        )
    if with_reverse not in SYMMETRIES:
        raise ValueError(
            f"with_reverse: wanted {', '.join(SYMMETRIES)}, got {with_reverse!r}"
        )
    choice = AlignmentChoice(
        str(values["layer"]),
        values["head"],
        bool(values["shifted"]),
        symmetry,
        with_reverse,
    )
    if identity is not None:
        broken = why_broken(values)
        if broken:
            raise ValueError(broken)
        if values[SEAL].get("id") != identity:
            raise ValueError("it was chosen for another model")
    return choice


def folder_languages(folder: Path) -> Languages:
    """Return the languages of a model folder, empty if unknown. Raises ModelFolderError."""
    return load_settings(folder).languages


def save_language_id(folder: Path, language_id: LanguageId) -> None:
    """Write the language identification of a folder, bound to the folder's id."""
    write_text(folder / LANGUAGES, language_id.to_json(folder_id(folder)))


def load_language_id(folder: Path) -> LanguageId | None:
    """Read the language identification of a folder.

    Returns None if there is none or, with a warning, if it is damaged.
    """
    path = folder / LANGUAGES
    if not path.is_file():
        return None
    check_links(folder, LANGUAGES)
    try:
        if path.stat().st_size > MAX_SIZE:
            raise ValueError(f"of more than {MAX_SIZE:,} bytes")
        return LanguageId.parse(file_bytes(path), folder_id(folder))
    except (OSError, ValueError) as problem:
        warnings.warn(
            f"{path}: damaged ({reason_of(problem)}) and not used, so languages are not "
            f"recognised; translations are not affected; {_REMEDY}, or delete it",
            stacklevel=2,
        )
        return None


def check_folder(folder: Path) -> dict[str, str]:
    """Return the problem of each file that affects the outputs of a model, empty if the file is
    valid.

    Raises ModelFolderError if this is no model folder.
    """
    results = {CONFIG: problem_of(lambda: load_settings(folder))}
    settings = FolderSettings.parse(_read_settings(folder), str(folder / CONFIG))
    check_links(folder, *settings.seal.files)
    for name, digest in sorted(settings.seal.files.items()):
        path = folder / name
        results[name] = ""
        if not path.is_file():
            results[name] = f"{path}: missing; {_seal_remedy(folder)}"
        elif file_sha256(path) != digest:
            results[name] = f"{path}: damaged or changed; {_seal_remedy(folder)}"
    results[WEIGHTS] = problem_of(lambda: read_weights(folder, settings))
    if not any(results.values()):
        results[WEIGHTS] = problem_of(lambda: load_folder(folder))
    if (folder / ALIGNMENT).is_file() or settings.seal.alignment:
        results[ALIGNMENT] = _warnings_of(lambda: load_alignment(folder, settings.seal))
    if (folder / LANGUAGES).is_file():
        results[LANGUAGES] = _warnings_of(lambda: load_language_id(folder))
    return results


def unlisted_files(folder: Path) -> list[str]:
    """Return the names of vocabularies that are unused, since `config.json` does not list them."""
    settings = FolderSettings.parse(_read_settings(folder), str(folder / CONFIG))
    listed = settings.seal.files
    return [
        path.name
        for pattern in VOCABULARIES
        for path in sorted(folder.glob(pattern))
        if path.name not in listed
    ]


def seal_folder(folder: Path) -> None:
    """Accept the files of a model folder in their present state: renew the digests that do not
    match.

    Raises ModelFolderError or ConfigurationError, and changes nothing, if the model cannot be
    loaded.
    """
    check_links(folder, CONFIG, WEIGHTS, ALIGNMENT, written=True)
    settings = FolderSettings.parse(_read_settings(folder), str(folder / CONFIG))
    tokenizer = Tokenizer.load(folder, settings.tokenizer)
    tensors, metadata = _read_tensors(folder / WEIGHTS, digest="ignored")
    with torch.device("meta"):
        model = build(
            settings.model,
            len(tokenizer.source),
            len(tokenizer.target),
            settings.tokenizer.joint,
        )
    check_weights(model, tensors, folder / WEIGHTS)
    files = {
        name: hashlib.sha256(content).hexdigest()
        for name, content in tokenizer.files.items()
    }
    identity = settings.seal.id or json_digest(
        [settings.model_dump(exclude={SEAL}), files, tensor_digest(tensors, {})]
    )
    choice = folder / ALIGNMENT
    try:
        alignment = _read_alignment(choice, None) if choice.is_file() else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ModelFolderError(
            f"{choice}: damaged ({problem}); remove it, or choose a head again"
        ) from None
    seal = {"id": identity[:32], "files": files, "alignment": alignment is not None}
    write_settings(folder, settings.with_values(seal=seal))
    if problem_of(lambda: read_weights(folder, load_settings(folder))):
        save_weights(folder, tensors, metadata)
    if alignment is not None:
        values = {**parse_json(file_bytes(choice)), SEAL: {}}
        text = json.dumps(sealed(values, id=folder_id(folder)), indent=2)
        write_text(choice, text + "\n")


def problem_of(action: Callable[[], object]) -> str:
    """Return the causes of the RegardError that an action raises; empty if it succeeds."""
    try:
        action()
    except RegardError as problem:
        return "; ".join(problem.causes)
    return ""


def _warnings_of(action: Callable[[], object]) -> str:
    """Return the messages of the warnings that an action issues; empty if there are none."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        action()
    return "; ".join(str(warning.message) for warning in warned)
