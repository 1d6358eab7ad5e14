"""Set-up of all tests, before `regard` is imported: every annotated shape is checked in every test."""

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
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started in the background: commands under test need it
    signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)
torch.set_warn_always(True)  # a warning fails every test that raises it, not only the first


@pytest.fixture(autouse=True)
def _seed_every_test() -> Iterator[None]:
    """Seed every test, so that it draws the same random numbers alone and among other tests."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
