"""The JSONPath of printer columns."""

from typing import Any

import pytest

from kcr_devcluster.apiserver.http.printers.jsonpath import compile_path, printed

OBJ: dict[str, Any] = {
    "a": {"b": [1, 2, 3], "x.y": "dotted", "it's": "quoted"},
    "conditions": [{"type": "Ready", "status": "True", "n": 3}, {"type": "Done", "status": "False", "n": 5}],
    "empty": None,
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param(".a.b", [[1, 2, 3]], id="members"),
        pytest.param(".a.b[0]", [1], id="position"),
        pytest.param(".a.b[-1]", [3], id="from-the-end"),
        pytest.param(".a.b[0,2]", [1, 3], id="positions"),
        pytest.param(".a.b[0:2]", [1, 2], id="slice"),
        pytest.param(".a.b[*]", [1, 2, 3], id="all"),
        pytest.param(".a['x.y']", ["dotted"], id="quoted"),
        pytest.param(r".a.x\.y", ["dotted"], id="escaped"),
        pytest.param(r".a['it\'s']", ["quoted"], id="escaped-quote"),
        pytest.param('.conditions[?(@.type=="Ready")].status', ["True"], id="filter"),
        pytest.param(".conditions[?(@.n > 4)].type", ["Done"], id="comparison"),
        pytest.param(".conditions[?(@.type != 'Ready')].n", [5], id="not-equal"),
        pytest.param(".conditions[?(@.nothing)].n", [], id="existence"),
        pytest.param("..type", ["Ready", "Done"], id="descendants"),
        pytest.param(".empty", [None], id="null"),
        pytest.param(".a.nothing.more", [], id="absent"),
        pytest.param(".a.b[9]", [], id="beyond"),
        pytest.param(".a.b.c", [], id="no-object"),
        pytest.param("nothing", [], id="no-path"),
    ],
)
def test_path_finds_values(path: str, found: list[object]) -> None:
    assert compile_path(path)(OBJ) == found


def test_values_are_printed_as_go_prints_them() -> None:
    assert [printed(value) for value in ("a", 1, True, [1, "b"], {"b": 1, "a": 2}, None)] == [
        "a", "1", "true", '[1,"b"]', '{"a":2,"b":1}', None,
    ]  # fmt: skip
