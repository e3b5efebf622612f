import subprocess
import sys
from typing import get_origin

import pytest

import kcr


def test_every_public_name_is_there() -> None:
    for name in dir(kcr):
        value = getattr(kcr, name)
        # Types of fields have no name of their own, such as kcr.IntOrString.
        assert get_origin(value) or value.__name__ == name


def test_first_page_of_names_is_short() -> None:
    assert len(dir(kcr)) <= 71


def test_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(kcr, "Cache")


def test_import_brings_neither_kubernetes_asyncio_nor_aiohttp() -> None:
    code = "import sys, kcr, kcr_devcluster.testing.plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"kubernetes_asyncio", "aiohttp", "msgspec"} & set(loaded)


def test_every_public_name_comes_without_kubernetes_asyncio() -> None:
    code = "import sys; from kcr import *; from kcr.client import *; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"kcr.manager", "kcr.client.typed_apis"} <= set(loaded)
    assert "kubernetes_asyncio" not in loaded
    # Classes that most programs do not need.
    assert not [name for name in loaded if name.startswith(("kcr.api.full", "kcr_devcluster"))]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        pytest.param("Pod", "it is in kcr.api.core", id="view"),
        pytest.param("StatefulSet", "it is in kcr.api.full.apps_v1", id="complete-type"),
        pytest.param("LabelSelector", "it is in kcr.api.selectors", id="selector"),
        pytest.param("condition", "use kcr.Condition", id="near"),
    ],
)
def test_unknown_name_is_told_where_it_is(name: str, remedy: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'kcr' has no attribute '{name}': {remedy}$"):
        getattr(kcr, name)
