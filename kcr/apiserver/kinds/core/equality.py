"""When two parts of a manifest say the same.

Nothing, null and emptiness are one; amounts and moments are compared in the canonical form that defaulting
has given them.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/api/equality/semantic.go.
"""


def same(one: object, other: object) -> bool:
    """Return whether two values say the same."""
    if one == other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one.get(name), other.get(name)) for name in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return _is_nothing(one) and _is_nothing(other)


def _is_nothing(value: object) -> bool:
    return value is None or value == [] or value == {}
