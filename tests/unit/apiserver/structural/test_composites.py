"""Items of lists, and what they were before."""

from typing import Any

import pytest

from kcr_devcluster.apiserver.schema.shape import ABSENT
from kcr_devcluster.apiserver.structural.composites import correlation

KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
BEFORE = [{"name": "a", "n": 1}, {"name": "b", "n": 2}]


@pytest.mark.parametrize(
    ("schema", "old", "found"),
    [
        pytest.param(KEYED, BEFORE, BEFORE[1], id="map"),
        pytest.param({}, BEFORE, ABSENT, id="atomic"),
        pytest.param({"x-kubernetes-list-type": "set"}, BEFORE, ABSENT, id="set"),
        pytest.param({**KEYED, "x-kubernetes-list-type": "atomic"}, BEFORE, ABSENT, id="keys-of-no-map"),
        pytest.param(KEYED, ABSENT, ABSENT, id="no-list-before"),
        pytest.param(KEYED, None, ABSENT, id="null-before"),
        pytest.param(KEYED, BEFORE[:1], ABSENT, id="not-there-before"),
    ],
)
def test_only_items_of_maps_are_what_they_were(schema: dict[str, Any], old: Any, found: Any) -> None:
    # Source: apiextensions-apiserver/pkg/apiserver/schema/cel/common, MapList.
    assert correlation(schema, old)({"name": "b", "n": 3}) is found
