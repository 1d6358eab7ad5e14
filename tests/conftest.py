"""Before anything imports `regard`: every annotated shape is checked in every test."""

import signal
import sys
from collections.abc import Iterator

import laws.checking
import pytest
import torch
from jaxtyping import install_import_hook

assert "regard" not in sys.modules, "regard was imported before its annotations could be checked"
install_import_hook("regard", f"{laws.checking.__name__}.{laws.checking.checked.__name__}")
pytest.register_assert_rewrite("laws.models", "laws.learning")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # begun in the background: the commands we start are to hear it
    signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)
torch.set_warn_always(True)  # a warning fails the test that meets it, not only the first of a run


@pytest.fixture(autouse=True)
def _same_chance_for_every_test() -> Iterator[None]:
    """Each test draws the same random numbers, alone or in company."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
