"""Hidden states of a recurrent model, token by token, as plain data that pages and players draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.common.errors import UsageError
from regard.visualisation.text import clean


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
