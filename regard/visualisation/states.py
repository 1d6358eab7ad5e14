"""Hidden states of a recurrent model, token by token, as plain data that pages and players draw."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.common.errors import UsageError
from regard.visualisation.text import clean

DRAWN = 64  # numbers of a state vector, of each direction, that a page draws
SCALE = 127  # quantisation steps between 0 and 1


@dataclass(frozen=True, eq=False)
class States:
    """Hidden states of the highest layers; each number lies between −1 and 1.

    - `tokens`: the S source tokens, the end of the sentence last; `words`: the index of the word of
      each, −1 for none.
    - `encoder` (S, K, N): the state of each of K directions after it has read source token s.
    - `decoder` (P, M): the state from which target token p is predicted.
    - `initial` (M,): the first state of a recurrent decoder.
    - `is_all`: the decoder receives nothing of the encoder but its last states.
    - `order`: the decoder attends before its state is updated ("bahdanau") or after it ("luong").
    """

    tokens: tuple[str, ...]
    encoder: npt.NDArray[np.float32]
    decoder: npt.NDArray[np.float32]
    is_all: bool
    words: tuple[int, ...] = ()
    order: str = ""
    initial: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        S = len(self.tokens)
        if self.encoder.ndim != 3 or len(self.encoder) != S or self.decoder.ndim != 2:
            raise UsageError(
                f"states of {S} tokens: wanted encoder ({S}, K, N) and decoder (P, M), got "
                f"{self.encoder.shape} and {self.decoder.shape}"
            )
        object.__setattr__(self, "tokens", tuple(clean(token) for token in self.tokens))

    @property
    def token_words(self) -> tuple[int, ...]:
        """Index of the word of each token, −1 for the end of the sentence."""
        return self.words or (*range(len(self.tokens) - 1), -1)

    @property
    def directions(self) -> int:
        """Number of directions in which the encoder reads."""
        return int(self.encoder.shape[1])


def states_data(
    states: States | None, token_texts: Sequence[str]
) -> dict[str, Any] | None:
    """Convert states to JSON values: sizes, and the first numbers of each vector as signed bytes,
    compressed by zlib and in base64.
    """
    if states is None:
        return None
    parts = [states.encoder[..., :DRAWN], states.decoder[..., :DRAWN]]
    if states.initial is not None:
        parts.append(states.initial[:DRAWN])
    quantised = [
        np.rint(np.clip(part, -1, 1) * SCALE).astype(np.int8).ravel() for part in parts
    ]
    numbers = np.concatenate(quantised)
    return {
        "tokens": list(token_texts),
        "directions": states.directions,
        "drawn": [part.shape[-1] for part in parts[:2]],
        "sizes": [states.encoder.shape[-1], states.decoder.shape[-1]],
        "values": base64.b64encode(zlib.compress(numbers.tobytes(), 9)).decode("ascii"),
        "initial": states.initial is not None,
        "is_all": states.is_all,
        "words": list(states.token_words),
        "order": states.order,
    }
