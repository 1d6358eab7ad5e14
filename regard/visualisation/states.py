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

# In a page: the first numbers of a state, of each direction; steps between 0 and 1.
DRAWN, SCALE = (
    64,
    127,
)


@dataclass(frozen=True, eq=False)
class States:
    """Hidden states of the highest layers, each number between −1 and 1.

    `encoder` (S, K, N): the state of each of K directions after it has read source token s.
    `decoder` (P, M): the state that target token p is predicted from, `initial` (M,) the one
    before, of a recurrent decoder. `tokens`: the S source tokens, end of the sentence last, `words`
    the word of each (−1: none). `is_all`: the decoder gets only the last states. `order`: it
    attends before its own state changes ("bahdanau") or after it ("luong").
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
        wanted = f"wanted encoder ({len(self.tokens)}, K, N) and decoder (P, M)"
        if self.encoder.ndim != 3 or len(self.encoder) != S or self.decoder.ndim != 2:
            raise UsageError(
                f"states of {S} tokens: {wanted}, got {self.encoder.shape} and {self.decoder.shape}"
            )
        object.__setattr__(self, "tokens", tuple(clean(token) for token in self.tokens))

    @property
    def token_words(self) -> tuple[int, ...]:
        """The word of each token, −1 for the end."""
        return self.words or (*range(len(self.tokens) - 1), -1)

    @property
    def directions(self) -> int:
        """Number of directions that the encoder reads in."""
        return int(self.encoder.shape[1])


def states_data(
    states: States | None, token_texts: Sequence[str]
) -> dict[str, Any] | None:
    """Convert states to JSON values: sizes, and the first numbers of each vector in signed bytes
    (zlib, base64).
    """
    if states is None:
        return None
    parts = [states.encoder[..., :DRAWN], states.decoder[..., :DRAWN]]
    parts += [] if states.initial is None else [states.initial[:DRAWN]]
    numbers = np.concatenate(
        [
            np.rint(np.clip(part, -1, 1) * SCALE).astype(np.int8).ravel()
            for part in parts
        ]
    )
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
