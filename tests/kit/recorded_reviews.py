"""Requests to a real API server with the reviews that it sent to webhooks, and how the embedded one differs.

Each row is a request with its answer, what the webhooks answered, and the bodies that they got; the rows follow one
another on one server. The recording is described in `tests/apiserver/recordings/README.md`.
"""

import asyncio
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kcr_devcluster.apiserver.authentication import User
from tests.kit.api import Api, Reply
from tests.kit.recordings import NOTICE

FILE = Path(__file__).parents[1] / "apiserver" / "recordings" / "reviews.jsonl.gz"
HOOKS = "https://localhost:9443"
# What differs from run to run.
_DRAWN = re.compile(
    "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{4}-[0-9-]{5}T[0-9:.]+Z|[bcdfghjklmnpqrstvwxz2456789]{5}$"
)
_VERSIONS = ("resourceVersion", "uid", "creationTimestamp", "clusterIP", "clusterIPs", "fieldsV1", "time")


class RecordedReview(msgspec.Struct, frozen=True):
    """One call of a webhook.

    Attributes:
        webhook: Its name, and its path.
        target: Path and query.
        headers: The headers, without host and length.
        review: The AdmissionReview or ConversionReview.
    """

    webhook: str
    target: str
    headers: dict[str, str]
    review: dict[str, Any]

    @property
    def request(self) -> dict[str, Any]:
        """The request of the review."""
        found: dict[str, Any] = self.review["request"]
        return found


class RecordedRequest(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        name: What it tries.
        method: Its method.
        path: Path and query.
        body: Its body; None for none.
        headers: Its headers beside those of the connection.
        answers: What webhooks answer by name, as `answer_of` takes it; others allow, or convert.
        code: The status code of the response.
        warnings: Its `Warning` headers.
        answer: Its body.
        reviews: The calls of webhooks that it caused.
    """

    name: str
    method: str
    path: str
    body: Any
    headers: dict[str, str]
    answers: dict[str, dict[str, Any]]
    code: int
    warnings: list[str]
    answer: Any
    reviews: list[RecordedReview]


def recorded_requests() -> tuple[RecordedRequest, ...]:
    """Return the rows in the order in which they were sent."""
    decoder = msgspec.json.Decoder(RecordedRequest)
    return tuple(decoder.decode(line) for line in gzip.decompress(FILE.read_bytes()).splitlines())


def converted(obj: Mapping[str, Any], desired: str) -> dict[str, Any]:
    """Return a Widget in another version: `color` of v1 is `colour` of v1beta1."""
    old, new = ("color", "colour") if desired.endswith("v1beta1") else ("colour", "color")
    spec = dict(obj.get("spec") or {})
    if old in spec and obj["apiVersion"] != desired:
        spec[new] = spec.pop(old)
    return {**obj, "apiVersion": desired, **({"spec": spec} if "spec" in obj else {})}


def answer_of(review: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[int, bytes]:
    """Return the status and body with which a webhook answered.

    Args:
        review: The review.
        answer: `http` and `body` for a response as it is; else members of the response, and its `apiVersion`.
    """
    request, members = review["request"], {**answer}
    status, body = members.pop("http", 200), members.pop("body", None)
    version = members.pop("apiVersion", review["apiVersion"])
    if body is not None:
        return status, body.encode()
    response: dict[str, Any] = {"uid": request["uid"]}
    if review["kind"] == "ConversionReview":
        objects = [converted(one, request["desiredAPIVersion"]) for one in request["objects"]]
        response |= {"convertedObjects": objects, "result": {"status": "Success"}}
    else:
        response["allowed"] = True
    return status, msgspec.json.encode({"apiVersion": version, "kind": review["kind"], "response": response | members})


class Recorder:
    """Webhooks in the process of the test: they answer as those of the recording, and keep their reviews."""

    def __init__(self, api: Api) -> None:
        self.api = Api(api.server, User("admin", uid="admin", groups=("system:masters", "system:authenticated")))
        self._answers: Mapping[str, dict[str, Any]] = {}
        self._reviews: list[RecordedReview] = []
        api.server.admission.caller.handlers[HOOKS] = self._handle

    async def _handle(self, target: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        name, review = target.strip("/"), msgspec.json.decode(body)
        self._reviews.append(RecordedReview(name, f"{target}?timeout={seconds:g}s", {}, review))
        answer = dict(self._answers.get(name, {}))
        answer.pop("type", None)
        await asyncio.sleep(answer.pop("sleep", 0))
        return answer_of(review, answer)

    async def differences(self, row: RecordedRequest) -> list[str]:
        """Send the request of a row, and return how its answer and its reviews differ from the recorded ones."""
        self._answers, self._reviews = row.answers, []
        headers = {"Accept": "application/json", **row.headers}
        if row.body is not None:
            headers.setdefault("Content-Type", "application/json")
        body = b"" if row.body is None else msgspec.json.encode(row.body)
        reply = await self.api.call(row.method, row.path, body, **headers)
        found = list(_answer_differences(row, reply))
        recorded, sent = (list(_conversions(reviews)) for reviews in (row.reviews, self._reviews))
        found += [f"another conversion: {one}" for one in sent if one not in recorded]
        for name in sorted({one.webhook for one in (*row.reviews, *self._reviews)} - {"convert"}):
            recorded, sent = (
                [shape(one) for one in reviews if one.webhook == name] for reviews in (row.reviews, self._reviews)
            )
            found += [f"{name}: {one}" for one in _differences(recorded, sent, "")]
        return found


def _conversions(reviews: Sequence[RecordedReview]) -> Iterator[Any]:
    """Yield each object of conversions by itself: how many are in one review, and how often, is not compared."""
    for one in reviews:
        if one.webhook == "convert":
            request = one.request
            rest = {**one.review, "request": {**request, "objects": []}}
            for obj in request["objects"]:
                metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
                yield _marked([one.target, rest, {**obj, "metadata": metadata}])


def shape(review: RecordedReview) -> Any:
    """Return a review with a mark for each value that differs from run to run."""
    request = {**review.request}
    for name in ("object", "oldObject"):
        if request.get(name):
            request[name] = _without_empty(request[name])
    return _marked({"target": review.target, **review.review, "request": request})


def _without_empty(value: Any) -> Any:
    """Return an object without empty members: Go writes some of them."""
    if not isinstance(value, dict):
        return value
    found = {name: _without_empty(one) for name, one in value.items() if name != "managedFields"}
    return {name: one for name, one in found.items() if one not in (None, "", 0, False, {}, [])}


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "<drawn>" if name in _VERSIONS and one else _marked(one)
            for name, one in value.items()
            if name != "managedFields"
        }
    if isinstance(value, list):
        return [_marked(one) for one in value]
    return _DRAWN.sub("<drawn>", value) if isinstance(value, str) else value


def _answer_differences(row: RecordedRequest, reply: Reply) -> Iterator[str]:
    if reply.status != row.code:
        yield f"code {reply.status} for {row.code}"
    warnings = re.findall(r'299 - "(?:[^"\\]|\\.)*"', NOTICE.sub("", reply.headers.get("Warning", "")))
    recorded = [one for text in row.warnings for one in re.findall(r'299 - "(?:[^"\\]|\\.)*"', text)]
    if warnings != recorded:
        yield f"warnings {warnings} for {recorded}"
    if row.code >= 300 and isinstance(row.answer, dict):
        members = ("message", "reason", "details")
        wanted, given = (_marked({name: one.get(name) for name in members}) for one in (row.answer, reply.body))
        yield from _differences(wanted, given, "answer")


def _differences(wanted: Any, given: Any, path: str) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(given, dict):
        for name in sorted(wanted.keys() | given.keys()):
            place = f"{path}.{name}".removeprefix(".")
            if name not in given:
                yield f"no {place}"
            elif name not in wanted:
                yield f"{place}: {given[name]!r}"
            else:
                yield from _differences(wanted[name], given[name], place)
    elif isinstance(wanted, list) and isinstance(given, list) and len(wanted) == len(given):
        for position, (one, other) in enumerate(zip(wanted, given, strict=True)):
            yield from _differences(one, other, f"{path}[{position}]")
    elif isinstance(wanted, list) and isinstance(given, list):
        yield f"{path}: {len(given)} for {len(wanted)}"
    elif wanted != given:
        yield f"{path}: {given!r} for {wanted!r}"
