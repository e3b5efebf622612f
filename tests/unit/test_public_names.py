import importlib
import subprocess
import sys
from typing import get_origin

import pytest

import kcr
from kcr.dependents import add_finalizer


def test_every_public_name_is_there() -> None:
    for name in dir(kcr):
        value = getattr(kcr, name)
        # Types of fields have no name of their own, such as kcr.IntOrString.
        assert get_origin(value) or value.__name__ == name


def test_first_page_of_names_is_short() -> None:
    assert len(dir(kcr)) <= 70


def test_name_that_has_moved_warns_with_its_module() -> None:
    with pytest.warns(DeprecationWarning, match="kcr.add_finalizer is kcr.dependents.add_finalizer"):
        assert getattr(kcr, "add_finalizer") is add_finalizer  # noqa: B009  # type checkers do not know it


@pytest.mark.parametrize(("module", "names"), vars(kcr)["_MOVED"].items())
def test_moved_names_are_in_their_modules(module: str, names: str) -> None:
    assert set(names.split()) <= set(dir(importlib.import_module(module)))


def test_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(kcr, "Cache")


def test_import_brings_neither_kubernetes_asyncio_nor_aiohttp() -> None:
    code = "import sys, kcr, kcr.testing.plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"kubernetes_asyncio", "aiohttp", "msgspec"} & set(loaded)


def test_every_public_name_comes_without_kubernetes_asyncio() -> None:
    code = "import sys; from kcr import *; from kcr.client import *; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"kcr.manager", "kcr.client.typed_apis"} <= set(loaded)
    assert "kubernetes_asyncio" not in loaded
    # Classes that most programs do not need.
    assert not [name for name in loaded if name.startswith(("kcr.api.full", "kcr_devcluster"))]
