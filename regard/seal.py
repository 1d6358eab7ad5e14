"""Seals: SHA-256 digests that files carry in themselves, so that damage is noticed whoever copied the file."""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

SEAL, SHA256 = "seal", "sha256"


def json_digest(values: Any) -> str:
    """Return the SHA-256 of JSON values; it depends neither on the order of keys nor on white space."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


def sealed(values: Mapping[str, Any], **more: object) -> dict[str, Any]:
    """Return a JSON table with a table `seal`, which holds the digest of all else; `more` is put beside it."""
    unsealed = {**values, SEAL: {**values.get(SEAL, {}), **more}}
    unsealed[SEAL].pop(SHA256, None)
    return {**unsealed, SEAL: {**unsealed[SEAL], SHA256: json_digest(unsealed)}}


def why_broken(values: Mapping[str, Any]) -> str | None:
    """Say why the seal of a JSON table does not hold; None if it does."""
    seal = values.get(SEAL)
    if not isinstance(seal, dict) or SHA256 not in seal:
        return "it has no seal"
    return None if sealed(values)[SEAL][SHA256] == seal[SHA256] else "its content does not match its SHA-256"


def tensor_digest(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> str:
    """Return the SHA-256 of names, dtypes, shapes and bytes of tensors, and of their metadata."""
    entries = [
        [name, str(tensor.dtype), list(tensor.shape), _bytes_digest(tensor)] for name, tensor in sorted(tensors.items())
    ]
    return json_digest([dict(metadata), entries])


def _bytes_digest(tensor: torch.Tensor) -> str:
    """Hash a tensor's bytes. `Tensor.numpy` would forbid PyTorch to resize the storage, as sharded training does."""
    whole = tensor.detach().contiguous().cpu()
    return hashlib.sha256((ctypes.c_char * whole.nbytes).from_address(whole.data_ptr())).hexdigest()
