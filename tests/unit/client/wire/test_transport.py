import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kcr

ROOT = Path(kcr.__file__).parent


def imported(path: Path, library: str) -> Iterator[str]:
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if library in text else ():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize(
    ("library", "folder", "homes"),
    [
        pytest.param(
            "aiohttp",
            "client",
            {"client/wire/http.py", "client/wire/connections.py", "client/wire/typed_rest.py"},
            id="http",
        ),
        pytest.param("kubernetes_asyncio", ".", {"client/wire/typed_rest.py"}, id="kubernetes-asyncio"),
        pytest.param("kubernetes", ".", {"client/wire/official_rest.py"}, id="official"),
    ],
)
def test_library_is_known_to_the_transport_and_the_adapter(library: str, folder: str, homes: set[str]) -> None:
    # ST-2: changing it costs one file and its helper; the adapters of ST-32 speak both libraries' words.
    users = {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*.py")
        if any(name.partition(".")[0] == library for name in imported(path, library))
    }
    assert users == homes
