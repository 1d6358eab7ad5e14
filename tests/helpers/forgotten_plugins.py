"""Plug-ins that are imported inside a block and forgotten after it, as by the end of a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from regard.attention import NORMALISERS, SCORES
from regard.common import plugins
from regard.data.plugin_vocabulary import TOKENIZERS
from regard.models import DECODERS, ENCODERS, POSITIONS


@contextmanager
def forgotten_plugins(named: str = "") -> Iterator[None]:
    """Leave registries, modules and environment as they were; `named` is in the environment."""
    registries: list[Any] = [SCORES, NORMALISERS, POSITIONS, ENCODERS, DECODERS]
    registries.append(TOKENIZERS)
    before = [dict(registry) for registry in registries]
    environment = os.environ.get(plugins.VARIABLE)
    os.environ[plugins.VARIABLE] = named
    try:
        yield
    finally:
        os.environ.pop(plugins.VARIABLE)
        if environment is not None:
            os.environ[plugins.VARIABLE] = environment
        for registry, variants in zip(registries, before, strict=True):
            registry.clear()
            registry.update(variants)
        for name in [name for name in sys.modules if name.endswith(".py")]:
            del sys.modules[name]
        plugins._identity.cache_clear()
