"""Generated modules, imported from their text."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import kcr


@contextmanager
def imported(text: str, name: str = "generated_types") -> Iterator[ModuleType]:
    """Import a module from its text, for as long as the context lives."""
    module = ModuleType(name)
    sys.modules[name] = module
    try:
        exec(compile(text, f"{name}.py", "exec"), module.__dict__)
        yield module
    finally:
        del sys.modules[name]


def kinds_of(module: ModuleType) -> list[type[kcr.FullResource]]:
    """Return the kinds that a generated module declares."""
    found = (one for one in vars(module).values() if isinstance(one, type) and issubclass(one, kcr.FullResource))
    return [one for one in found if one.__module__ == module.__name__]
