"""The systems that are compared, each at one precision."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OURS", "SYSTEMS", "System"]

OURS = "regard"


@dataclass(frozen=True)
class System:
    """An adapter of peers/ and its options."""

    label: str
    peer: str
    precision: str = "float32"
    recurrent: bool = True  # whether it has the gru shape

    @property
    def ours(self) -> bool:
        """True for Regard itself, which runs in the interpreter of the benchmark."""
        return self.peer == OURS


SYSTEMS = {
    "regard": System("Regard", "regard", "bfloat16"),
    "regard-float32": System("Regard", "regard"),
    "hf": System("transformers (MarianMTModel)", "hf", recurrent=False),
    "hf-bfloat16": System(
        "transformers (MarianMTModel)", "hf", "bfloat16", recurrent=False
    ),
    "opennmt": System("OpenNMT-py", "opennmt"),
    "eole": System("eole", "eole"),
    "joeynmt": System("JoeyNMT", "joeynmt"),
    "fairseq": System("fairseq", "fairseq", recurrent=False),
}
"""In the order of the first round; the next round is reversed, so that no system is always measured
first.
"""
