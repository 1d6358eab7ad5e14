"""Seals: SHA-256 digests that files carry in themselves, so that every reader notices damage."""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.atomic import file_sha256
from regard.common.reading import check_links, tensor_metadata

if TYPE_CHECKING:
    import torch

SEAL = "seal"
SHA256 = "sha256"
VOCABULARIES = ("*.model", "*vocab.json")


def json_digest(values: Any) -> str:
    """Return the SHA-256 of JSON values; it depends neither on the order of keys nor on white
    space.
    """
    return hashlib.sha256(
        json.dumps(values, sort_keys=True, default=str).encode()
    ).hexdigest()


def sealed(values: Mapping[str, Any], **more: object) -> dict[str, Any]:
    """Return a JSON table with a table `seal`, which holds the digest of all else; `more` is put
    beside it.
    """
    unsealed = {**values, SEAL: {**values.get(SEAL, {}), **more}}
    unsealed[SEAL].pop(SHA256, None)
    return {**unsealed, SEAL: {**unsealed[SEAL], SHA256: json_digest(unsealed)}}


def why_broken(values: Mapping[str, Any]) -> str | None:
    """Say why the seal of a JSON table does not hold; None if it does."""
    seal = values.get(SEAL)
    if not isinstance(seal, dict) or SHA256 not in seal:
        return "it has no seal"
    return (
        None
        if sealed(values)[SEAL][SHA256] == seal[SHA256]
        else "its content does not match its SHA-256"
    )


def model_files(folder: Path, *more: str) -> list[Path]:
    """Return the files of a model folder that affect its outputs, and those of `more` names that it
    has.

    Raises ModelFolderError for links that lead out of the folder.
    """
    patterns = ("config.json", "alignment.json", *more, *VOCABULARIES, "*.safetensors")
    paths = [
        path
        for pattern in patterns
        for path in sorted(folder.glob(pattern))
        if path.is_file()
    ]
    check_links(folder, *(path.name for path in paths))
    return paths


def fingerprints(model: Path) -> dict[str, str]:
    """Return a SHA-256 of every file that affects what a model outputs, by file name; of tensors
    the one they carry.
    """
    files = [model] if model.is_file() else model_files(model)
    return {path.name: stored_digest(path) or file_sha256(path) for path in files}


def stored_digest(path: Path) -> str:
    """The digest in the header of a file of tensors; empty if there is none. The loader of the
    tensors compares it.
    """
    return (
        tensor_metadata(path).get(SHA256, "") if path.suffix == ".safetensors" else ""
    )


def tensor_digest(
    tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]
) -> str:
    """Return the SHA-256 of names, dtypes, shapes and bytes of tensors, and of their metadata."""
    entries = [
        [name, str(tensor.dtype), list(tensor.shape), _bytes_digest(tensor)]
        for name, tensor in sorted(tensors.items())
    ]
    return json_digest([dict(metadata), entries])


def _bytes_digest(tensor: torch.Tensor) -> str:
    """Hash a tensor's bytes. `Tensor.numpy` would forbid PyTorch to resize the storage, as sharded
    training does.
    """
    whole = tensor.detach().contiguous().cpu()
    return hashlib.sha256(
        (ctypes.c_char * whole.nbytes).from_address(whole.data_ptr())
    ).hexdigest()
