"""ConversionReview: the question to a conversion webhook, and the rules for its answer.

Of metadata, a webhook may change labels and annotations. Everything else is put back; another name, namespace or uid
is refused.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.protocol.gojson import decode_json
from kcr_devcluster.apiserver.protocol.manifests import Manifest, in_order
from kcr_devcluster.apiserver.protocol.names import check_annotations, check_labels

_GROUP = "apiextensions.k8s.io"
# A request carries an empty response, too.
_NO_RESPONSE: Manifest = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
_VERSIONS = ("v1", "v1beta1")
_CHANGEABLE = ("labels", "annotations")
_GO_TYPES = {
    dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", int: "int64",
    float: "float64", type(None): "<nil>",
}  # fmt: skip


class ReviewError(Exception):
    """An answer that cannot be used.

    Attributes:
        has_failed: Whether the message follows the word "failed"; otherwise it begins with the returned value.
    """

    def __init__(self, message: str, *, has_failed: bool = True) -> None:
        super().__init__(message)
        self.has_failed = has_failed


def review_version(supported: Sequence[str]) -> str:
    """Return the version of the review: the first of the webhook's that is known.

    Raises:
        ValueError: None is.
    """
    found = next((version for version in supported if version in _VERSIONS), "")
    if not found:
        raise ValueError("no supported conversion review versions")
    return found


def review_request(version: str, uid: str, desired: str, objects: Sequence[Manifest]) -> bytes:
    """Return the body of a review.

    Args:
        version: The version of ConversionReview.
        uid: The uid of the request.
        desired: The apiVersion that is wanted.
        objects: The objects in other versions.
    """
    request = {"uid": uid, "desiredAPIVersion": desired, "objects": objects}
    head = {"kind": "ConversionReview", "apiVersion": f"{_GROUP}/{version}"}
    return msgspec.json.encode({**head, "request": request, "response": _NO_RESPONSE})


def converted_objects(version: str, uid: str, body: bytes, objects: Sequence[Manifest], desired: str) -> list[Manifest]:
    """Return the objects of an answer in the order of the question.

    Args:
        version: The version of the review.
        uid: The uid of the request.
        body: The answer.
        objects: The objects that were sent.
        desired: The apiVersion that is wanted.

    Raises:
        ReviewError: The answer cannot be used.
    """
    found = _response(version, uid, body).get("convertedObjects") or []
    if len(found) != len(objects):
        raise ReviewError(f"{len(found)} objects, expected {len(objects)}", has_failed=False)
    return [
        _checked(one, old, desired, _place(position, len(objects)))
        for position, (one, old) in enumerate(zip(found, objects, strict=True))
    ]


def _place(position: int, count: int) -> tuple[str, str, str]:
    """Return how messages name an object of the wrong type, an invalid one, and one with invalid metadata."""
    if count == 1:
        return "invalid object at index 0", "invalid object", "invalid metadata"
    of_list = f"invalid converted object at index {position}"
    return of_list, of_list, f"invalid metadata in object at index {position}"


def _response(version: str, uid: str, body: bytes) -> Manifest:
    try:
        review = decode_json(body)
    except ValueError as error:
        raise ReviewError(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(review, dict) or not review.get("kind"):
        raise ReviewError(f"Object 'Kind' is missing in '{body.decode('utf-8', 'replace')}'")
    group, _, given = str(review.get("apiVersion") or "").rpartition("/")
    wanted, found = f"{_GROUP}/{version}, Kind=ConversionReview", f"{group}/{given}, Kind={review['kind']}"
    if found != wanted and version == "v1":
        raise ReviewError(f"expected webhook response of {wanted}, got {found}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise ReviewError("no response provided")
    if response.get("uid") != uid and version == "v1":
        said = response.get("uid") if isinstance(response.get("uid"), str) else ""
        raise ReviewError(f'expected response.uid="{uid}", got {msgspec.json.encode(said).decode()}')
    result: Any = response.get("result") or {}
    if result.get("status") != "Success":
        raise ReviewError(
            result.get("message") or f"response.result.status was '{result.get('status', '')}', not 'Success'"
        )
    return response


def _checked(converted: Any, old: Manifest, desired: str, place: tuple[str, str, str]) -> Manifest:
    """Return a converted object with the metadata of the one that was sent."""
    wrong, invalid, bad_metadata = place
    if not isinstance(converted, dict) or not converted.get("kind"):
        shown = msgspec.json.encode(converted).decode()
        raise ReviewError(f"{wrong}: Object 'Kind' is missing in '{shown}'", has_failed=False)
    if converted.get("apiVersion") != desired:
        words = f"invalid groupVersion (expected {desired}, received {converted.get('apiVersion') or ''})"
        raise ReviewError(f"{wrong}: {words}", has_failed=False)
    if converted["kind"] != old["kind"]:
        words = f"invalid kind (expected {old['kind']}, received {converted['kind']})"
        raise ReviewError(f"{wrong}: {words}", has_failed=False)
    if fault := _identity_fault(converted.get("metadata"), old["metadata"]):
        raise ReviewError(f"{invalid}: {fault}", has_failed=False)
    try:
        metadata = _restored(converted, old["metadata"])
    except ValueError as error:
        raise ReviewError(f"{bad_metadata}: {error}", has_failed=False) from None
    kept = {name: value for name, value in converted.items() if name not in ("kind", "apiVersion", "metadata")}
    return {"kind": old["kind"], "apiVersion": desired, "metadata": metadata, **kept}


def _identity_fault(given: Any, old: Manifest) -> str:
    metadata = given if isinstance(given, dict) else {}
    for name, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        had, has = old.get(name) or "", metadata.get(name) or ""
        if had != has:
            return f"must have the same {shown}: {had} != {has}"
    return ""


def _restored(converted: Manifest, old: Manifest) -> Manifest:
    """Return the metadata that were sent, with the labels and annotations of the answer.

    Raises:
        ValueError: Those are invalid.
    """
    if "metadata" not in converted:
        raise ValueError("missing metadata in converted object")
    given = converted["metadata"]
    if not isinstance(given, dict):
        raise ValueError(f"invalid metadata of type {_go_type(given)} in converted object")
    metadata = {name: value for name, value in old.items() if name not in _CHANGEABLE}
    for name in _CHANGEABLE:
        value = given.get(name)
        if value is None:
            continue
        if not isinstance(value, dict):
            raise ValueError(f"invalid metadata.{name} of type {_go_type(value)} in converted object")
        _check_texts(name, value, old.get(name) or {})
        metadata[name] = value
    return in_order(metadata)


def _check_texts(name: str, value: Manifest, old: Manifest) -> None:
    for key, text in value.items():
        if not isinstance(text, str):
            raise ValueError(f"metadata.{name}[{key}] must be a string, but is {_go_type(text)} in converted object")
    if value == old:
        return
    # The path of annotations is upstream's.
    errors = (
        check_labels(value, "metadata.labels") if name == "labels" else check_annotations(value, "metadata.annotation")
    )
    if errors:
        raise ValueError(_aggregate(errors))


def _aggregate(errors: Sequence[FieldError]) -> str:
    words = tuple(dict.fromkeys(f"{error.field}: {error.message}" for error in errors))
    return words[0] if len(words) == 1 else f"[{', '.join(words)}]"


def _go_type(value: object) -> str:
    return _GO_TYPES.get(type(value), "interface {}")
