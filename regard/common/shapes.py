"""The axis letters that every signature in Regard uses, and no others.

    B  sentences (or images) in a batch
    K  beams per sentence
    N  hypotheses, N = B·K: row b·K + k is beam k of sentence b
    R  rows of a memory: B sentences, or N hypotheses
    T  queries, or target positions
    S  entries of a memory, or source positions
    H  heads
    E  key size per head (E' of a value per head, written `Ev`)
    D  model size (`Dk`, `Dv` for keys and values of other sizes)
    L  rows of a summary: the last states of each layer, hidden states before cells
    V  tokens in a vocabulary
    C  channels, Y rows and X columns of an image

Masks are called `keep` and are boolean: True means that an entry may be attended to.
Annotations are jaxtyping's, and the tests check them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor

__all__ = ["Array", "Bool", "Float", "Int", "Tensor"]

Array = NDArray[Any]
"""NumPy array of any type, which search and engines hold in host memory."""


def __getattr__(name: str) -> Any:
    # Imported late, since modules that compute with arrays only need no PyTorch.
    if name == "Tensor":
        import torch

        return torch.Tensor
    if name in ("Bool", "Float", "Int"):
        import jaxtyping

        return getattr(jaxtyping, name)
    raise AttributeError(
        f"module 'regard.common.shapes' has no attribute {name!r}; it has {', '.join(__all__)}"
    )
