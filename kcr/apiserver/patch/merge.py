"""JSON merge patch: objects merge, null deletes, anything else replaces.

Source: RFC 7396.
"""

from typing import Any

from kcr.apiserver.patch.errors import PatchError, kind_of


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the target with the patch applied; neither is changed.

    Raises:
        PatchError: The patch is no object.
    """
    if not isinstance(patch, dict):
        raise PatchError.malformed(
            f"json: cannot unmarshal {kind_of(patch)} into Go value of type map[string]interface {{}}"
        )
    return _merged(target, patch)


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result
