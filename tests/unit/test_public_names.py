import subprocess
import sys

import kcr


def test_every_public_name_is_there() -> None:
    assert kcr.__all__ == sorted(kcr.__all__)
    for name in kcr.__all__:
        # Names of unions, such as kcr.IntOrString, are told by nothing but the module.
        assert getattr(getattr(kcr, name), "__name__", name) == name


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
