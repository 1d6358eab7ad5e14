"""Registries of variants, such as attention scores and encoders, and the plug-ins that add to them.

A plug-in is an installed module, or a Python file, that registers variants when it is imported.
Regard imports those that the user named, in this call or in the environment variable
`REGARD_PLUGINS`, and no other: a folder that was made with a plug-in does not name it.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, wraps
from hashlib import sha256
from importlib.metadata import packages_distributions, version
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, TypeVar, cast

from pydantic_core import CoreSchema, core_schema

from regard.common.errors import ConfigurationError, PluginError, RegardError

K = TypeVar("K")
V = TypeVar("V")
C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])

VARIABLE = "REGARD_PLUGINS"
"""Environment variable that names plug-ins, as PYTHONPATH names folders; child processes have it,
too.
"""
_LOCK = RLock()


class Registry(dict[K, V]):
    """The variants of one part of a model, such as its attention score.

    In the annotation of a setting it validates the name of a variant, or a table of settings with
    its `kind`, when a recipe is read. The key of a variant is its name, or its class of settings.
    """

    # As an annotation it is compared by identity.
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, part: str) -> None:
        super().__init__()
        self.part = part

    @property
    def names(self) -> dict[str, K]:
        """The key of each variant by its name."""
        return {_name_of(key): key for key in self}

    def register(self, name: str, settings: Any = None) -> Callable[[C], C]:
        """Return a decorator that registers a class, or a function, under a new name.

        An encoder or decoder has `settings`, whose `kind` is the name. Raises ConfigurationError if
        another module has registered the name.
        """

        def add(variant: C) -> C:
            key: Any = name if settings is None else settings
            if _name_of(key) != name:
                raise ConfigurationError(
                    f"{self.part} {name!r}: its settings {settings.__name__} have another kind, "
                    f"{_name_of(key)!r}; write kind: Literal[{name!r}] = {name!r}"
                )
            previous = self.names.get(name)
            if previous is not None:
                module = _module_of(self[previous])
                if module != _module_of(variant):
                    raise ConfigurationError(
                        f"{self.part} {name!r}: {module} has registered this name; take another"
                    )
                del self[previous]  # a cell of a notebook that runs again
            self[key] = variant  # type: ignore[assignment]
            _name_to_children(_module_of(variant))
            return variant

        return add

    def key_of(self, name: object) -> K:
        """Return the key of a variant, after the plug-ins that the environment names are imported.

        Raises ValueError with the known names.
        """
        import_named()
        names = self.names
        if isinstance(name, str) and name in names:
            return names[name]
        raise ValueError(
            f"there is no {self.part} {str(name)[:80]!r}; known are {', '.join(names)}; plug-ins "
            f"have others: name one by --plugin, or in {VARIABLE} (in Python: import it)"
        )

    def __get_pydantic_core_schema__(
        self, source: object, handler: object
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validated)

    def _validated(self, value: Any) -> Any:
        """Return the name of a variant, or the settings of a table by its `kind`."""
        if type(value) in self:
            return value
        is_table = isinstance(value, Mapping)
        key: Any = self.key_of(value.get("kind") if is_table else value)
        return key.model_validate(value) if is_table else key


def import_named(names: Iterable[str] = ()) -> None:
    """Import the plug-ins that the environment names, after `names` were added to it.

    Raises PluginError if one cannot be imported.
    """
    # Child processes may have another working folder.
    _add_to_environment(
        str(Path(name).resolve()) if _is_file(name) else name for name in names
    )
    with _LOCK:
        for name in _named():
            module = str(Path(name).resolve()) if _is_file(name) else name
            if module not in sys.modules:
                _import(name, module)


def _add_to_environment(names: Iterable[str]) -> None:
    """Append names to the environment variable, unless they are there."""
    before = os.environ.get(VARIABLE, "")
    merged = dict.fromkeys([*before.split(os.pathsep), *names])
    after = os.pathsep.join(filter(None, merged))
    if after != before:
        os.environ[VARIABLE] = after


def _name_to_children(module_name: str) -> None:
    """Name a plug-in that the user imported to child processes; a notebook cannot be named."""
    module = sys.modules.get(module_name)
    path = getattr(module, "__file__", None)
    if module_name.partition(".")[0] in ("regard", "__main__") or path is None:
        return
    name = module_name
    if "==sha256:" in _identity(module_name):  # not installed
        name = str(Path(path).resolve())
        sys.modules.setdefault(name, sys.modules[module_name])
    _add_to_environment([name])


def plugin_of(variant: object) -> str | None:
    """Return the plug-in that a class or function comes from, as name==version; None if it is
    Regard's.
    """
    module = _module_of(variant)
    return None if module.partition(".")[0] == "regard" else _identity(module)


def plugin_problem(variant: object, problem: str) -> str:
    """Return a sentence on a problem with what a variant of a plug-in computes, and its place."""
    name = getattr(variant, "__name__", type(variant).__name__)
    plugin = short(str(plugin_of(variant)))
    return f"plug-in {plugin}: {name}: {problem}{_place_of(variant)}; mend it there"


@cache  # a warning is composed at each call of a doubtful normaliser
def _place_of(variant: Any) -> str:
    """Return line and file of a definition, in parentheses; empty for a cell of a notebook."""
    with suppress(OSError, TypeError):
        line = inspect.getsourcelines(variant)[1]
        return f" (line {line} of {inspect.getsourcefile(variant)})"
    return ""


def short(names: str) -> str:
    """Return names of plug-ins for a sentence, with twelve digits of each SHA-256."""
    return re.sub(r"(sha256:\w{12})\w+", r"\1…", names)


def place_in(variant: object, problem: BaseException) -> str:
    """Return line and file of an exception: the last in the file of a variant, else the last."""
    variant = getattr(variant, "func", variant)  # of a functools.partial
    file = getattr(sys.modules.get(_module_of(variant)), "__file__", None)
    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if frame.filename == file]
    last = (own or frames)[-1]
    return f"line {last.lineno} of {last.filename}"


def qualified_name(value: object) -> str:
    """Return the name by which an object is recorded: module:qualname==version of its class, or of
    the function that it is.
    """
    value = getattr(value, "func", value)  # of a functools.partial
    variant = value if hasattr(value, "__qualname__") else type(value)
    module, _, its_version = _identity(_module_of(variant)).partition("==")
    return f"{module}:{variant.__qualname__}=={its_version}"


@cache
def _identity(module: str) -> str:
    """Return the name and version of a module: that of its distribution, else the SHA-256 of its
    file.

    A file has the name without its folder and ending, by which it can also be imported.
    """
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None:
        return f"{module}==unknown"
    if _is_file(module) or module == "__main__":
        module = Path(path).stem
    elif distributions := packages_distributions().get(module.partition(".")[0]):
        return f"{module}=={version(distributions[0])}"
    return f"{module}==sha256:{sha256(Path(path).read_bytes()).hexdigest()}"


def plugin_failure(problem: BaseException) -> str:
    """Return a sentence that names the plug-in whose code raised an exception, or, if it was raised
    elsewhere, all that take part; empty without plug-ins.
    """
    names = _named()
    if not names:
        return ""
    plugins = short(", ".join(map(_identity, names)))
    return _raised_by_plugin(problem) or (
        f"{_cause(problem)}; the plug-ins {plugins} take part: check the shapes of what they "
        "return, and see the traceback with --debug"
    )


def naming_plugins(function: F) -> F:
    """Raise PluginError in place of an exception that code of a plug-in raises in a function.

    Want of memory, and what the operating system refuses, is not the fault of the code.
    """

    @wraps(function)
    def named(*args: Any, **kwargs: Any) -> Any:
        # Not a context manager, as search calls this for each step of a model.
        try:
            return function(*args, **kwargs)
        except (RegardError, OSError, MemoryError):
            raise
        except Exception as problem:
            failure = _raised_by_plugin(problem)
            if failure and "memory" not in str(problem):
                raise PluginError(failure) from problem
            raise

    return cast(F, named)


def _raised_by_plugin(problem: BaseException) -> str:
    """Return a sentence that names the plug-in through which an exception came; else nothing."""
    files = {
        getattr(sys.modules.get(name), "__file__", None): name for name in _named()
    }
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        if frame.filename in files:
            plugin = short(_identity(files[frame.filename]))
            line = f"line {frame.lineno} of {frame.filename}"
            return f"plug-in {plugin}: {_cause(problem)} ({line}); mend it there"
    return ""


def _named() -> list[str]:
    """Return the plug-ins that the environment names."""
    return list(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))


def _cause(problem: BaseException) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())


def check_recorded(
    recorded: Sequence[str], used: Sequence[str], is_complete: bool
) -> None:
    """Raise ValueError if a model was made with other plug-ins than it would be built with.

    `is_complete`: every part of the model is registered, so that `used` has all plug-ins.
    """
    missing = [plugin for plugin in recorded if plugin not in used]
    others = [plugin for plugin in used if plugin not in recorded]
    if missing and others:
        # In full, as they are to be copied into the files.
        raise ValueError(
            f"the model was made with {', '.join(missing)}, and this is {', '.join(others)}: put "
            "that back; or, if the change was on purpose, write the latter in place of the former "
            "into config.json and train.toml, and seal the folder: `regard doctor FOLDER --seal`"
        )
    if missing and not is_complete:
        name = missing[0].partition("==")[0]
        if name == "__main__":
            raise ValueError(
                "the model was made with what a notebook or a script registered itself, and this "
                "process has not; write it into a file, import that, and train again"
            )
        raise ValueError(
            f"the model was made with {short(', '.join(missing))}, which nobody named, so it was "
            f"not imported; if you trust it, give --plugin {name}, or its file (in "
            "Python: import it)"
        )


def _name_of(key: Any) -> str:
    """Return the name of a variant, which its settings have as their kind."""
    return key if isinstance(key, str) else str(key.model_fields["kind"].default)


def _module_of(variant: object) -> str:
    return str(getattr(variant, "__module__", type(variant).__module__))


def _is_file(name: str) -> bool:
    return name.endswith(".py")


def _import(name: str, module: str) -> None:
    """Import a plug-in under the name of a module. Raises PluginError."""
    try:
        if _is_file(name):
            _run_file(Path(module))
        else:
            importlib.import_module(name)
    except (Exception, SystemExit) as problem:
        sys.modules.pop(module, None)
        causes: tuple[str, ...] = (_why(name, problem),)
        if isinstance(problem, RegardError):
            causes = problem.causes
        raise PluginError(
            *(f"plug-in {name}: {cause}" for cause in causes)
        ) from problem


def _run_file(path: Path) -> None:
    """Run a file as a module, whose name is its path, without writing bytecode beside it."""
    source = path.read_bytes()
    module = ModuleType(str(path))
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(source, path, "exec"), vars(module))


def _why(name: str, problem: BaseException) -> str:
    """Return why a plug-in cannot be imported, and what to do."""
    if isinstance(problem, OSError):
        return f"cannot be read ({problem.strerror}); give the path of a Python file"
    if isinstance(problem, ModuleNotFoundError) and name.startswith(str(problem.name)):
        return f"no installed module has this name; install it, or give a file, as ./{name}.py"
    frames = traceback.extract_tb(problem.__traceback__)
    line = getattr(problem, "lineno", None) or frames[-1].lineno
    return (
        f"its import failed with {type(problem).__name__}: {problem} (line {line} of "
        f"{getattr(problem, 'filename', None) or frames[-1].filename}); mend it, or do not name it"
    )
