"""Operators of the documents let a namespace end that is deleted with their objects in it."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.inspect import StrType, StructType, type_info

import kcr
from kcr.testing import VirtualClock, namespace_ends
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.documents import ROOT, files
from tests.kit.generated import imported

pytestmark = pytest.mark.kcr_virtual

FIRST = {"README.md", "tutorial.md"}
# The kind of the one is cluster-scoped, that of the other a version of a kind in another file.
OTHERS = {"policy.py", "shop_beta.py"}


def operators() -> list[Any]:
    """Return the files of documents with a kind and its controller, each as a parameter."""
    found = []
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/guide").glob("*.md")]):
        for name, text in files(page).items():
            if "def setup(" in text and "(kcr.Resource, " in text and name not in OTHERS:
                marks = () if page.name in FIRST else pytest.mark.soak
                found.append(pytest.param(page, name, id=f"{page.name}:{name}", marks=marks))
    return found


def value_of(given: Any) -> Any:
    """Return a value with the required fields of a type."""
    if isinstance(given, StructType):
        return {one.encode_name: value_of(one.type) for one in given.fields if one.required}
    return "hello" if isinstance(given, StrType) else 1


@pytest.mark.parametrize(("page", "file"), operators())
async def test_namespace_with_live_objects_ends(page: Path, file: str, kcr_clock: VirtualClock) -> None:
    with imported(files(page)[file], file.removesuffix(".py")) as operator:
        declared = [one for one in vars(operator).values() if isinstance(one, type) and one.__module__ in file]
        kinds = [one for one in declared if issubclass(one, kcr.Resource)]
        metadata = {"metadata": {"name": "a", "namespace": "default"}}
        objects = [msgspec.convert({**value_of(type_info(kind)), **metadata}, kind) for kind in kinds]
        async with EmbeddedCluster(clock=kcr_clock, random=random.Random(1), kinds=kinds) as cluster:
            await namespace_ends(cluster, operator.setup, objects, live_seconds=5)
