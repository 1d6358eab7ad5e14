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


def json_digest(values: object) -> str:
    """Return the SHA-256 of JSON values, independent of the order of keys and of white space."""
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(values: Mapping[str, Any], **more: object) -> dict[str, Any]:
    """Return a JSON table with a table `seal`, which holds `more` and the digest of everything
    else.
    """
    unsealed = {**values, SEAL: {**values.get(SEAL, {}), **more}}
    unsealed[SEAL].pop(SHA256, None)
    return {**unsealed, SEAL: {**unsealed[SEAL], SHA256: json_digest(unsealed)}}


def why_broken(values: Mapping[str, object]) -> str | None:
    """Return why the seal of a JSON table is not valid; None if it is."""
    seal = values.get(SEAL)
    if not isinstance(seal, dict) or SHA256 not in seal:
        return "it has no seal"
    if sealed(values)[SEAL][SHA256] != seal[SHA256]:
        return "its content does not match its SHA-256"
    return None


def model_files(folder: Path, *more: str) -> list[Path]:
    """Return the files of a model folder that affect its outputs, and the files called `more`, if
    they exist.

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
    """Return a SHA-256 of every file that affects the outputs of a model, by file name.

    For files of tensors it is the digest that they carry.
    """
    files = [model] if model.is_file() else model_files(model)
    return {path.name: stored_digest(path) or file_sha256(path) for path in files}


def stored_digest(path: Path) -> str:
    """Return the digest in the header of a file of tensors, empty if there is none.

    It is compared with the content when the tensors are loaded.
    """
    if path.suffix != ".safetensors":
        return ""
    return tensor_metadata(path).get(SHA256, "")


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
    """Return the SHA-256 of the bytes of a tensor.

    The bytes are read by address: `Tensor.numpy` would make the storage impossible to resize, and
    sharded training resizes it.
    """
    contiguous = tensor.detach().contiguous().cpu()
    buffer = (ctypes.c_char * contiguous.nbytes).from_address(contiguous.data_ptr())
    return hashlib.sha256(buffer).hexdigest()
