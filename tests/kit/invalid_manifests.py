"""Manifests with something odd in them, drawn at random."""

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from kcr_devcluster.apiserver.protocol.manifests import Manifest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**33) | st.sampled_from(["", "a", "Never", "1Gi", 0.5]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "a", "type"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every holder in a value, with each key or index in it."""
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        return [(value, key) for key in keys] + [place for key in keys for place in _places(value[key])]
    return []


def mutated(data: st.DataObject, manifest: Manifest, part: str) -> Manifest:
    """A copy of a manifest with another value at one or two places of its spec or status."""
    made = deepcopy(manifest)
    for _ in range(data.draw(st.integers(1, 2))):
        holder, key = data.draw(st.sampled_from([(made, part), *_places(made[part])]))
        holder[key] = data.draw(JSON)
    return made
