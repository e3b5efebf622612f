"""Random requests to webhooks, each with the codes that are right for it.

The documents have the form that the API server documents (`tests.kit.reviews`), and the details that recorded reviews
of real servers have beside it: null times, empty status, apiVersion after kind, objects without a kind in v1beta1.
"""

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from kcr.serving.webhooks.webhooks import MAX_BODY_BYTES
from tests.kit.reviews import MUTATE, VALIDATE, review, website

JSON = "application/json"
# A review, or the refusal of a body that is none.
ANY = frozenset({200, 400})
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**63, 2**70, 1.5, 1e308, "", "x", "\u0000", "\ud83d\ude00", "x" * 5000, [], [None], {},
    {"": ""}, [[[[]]]], "CREATE", "v1", "admission.k8s.io/v1",
)  # fmt: skip


class Sent(NamedTuple):
    """A request, and the codes that are right for it."""

    path: str
    query: str
    body: bytes
    content_type: str
    codes: frozenset[int]


def draw(random: Random) -> Sent:
    """Return a random request."""
    change = random.choices(tuple(CHANGES), weights=tuple(CHANGES.values()))[0]
    query = random.choice(("timeout=10s", "timeout=1s", "timeout=0s", "timeout=%ff", "", "a&b&timeout", "timeout=1e9h"))
    document = _document(random)
    sent = Sent(random.choice((MUTATE, VALIDATE)), query, json.dumps(document).encode(), JSON, frozenset({200}))
    return change(random, sent, document)


def _document(random: Random) -> dict[str, Any]:
    """Return a review as API servers send it."""
    image = random.choice(("nginx:1", "bad"))
    obj = website(image=image, replicas=random.randint(0, 9), aliases=["a"] * random.randint(0, 3))
    obj["metadata"] |= random.choice(({}, {"creationTimestamp": None}, {"labels": {"a": "b"}, "generation": 1}))
    obj |= random.choice(({}, {"status": {}}, {"status": {"ready": 1}}, {"unknown": [1, {"a": None}]}))
    old = website(image="old", aliases=[])
    operation = random.choice(("CREATE", "UPDATE", "DELETE"))
    made = review(
        None if operation == "DELETE" else obj, None if operation == "CREATE" else old, operation,
        dryRun=random.choice((True, False)),
    )  # fmt: skip
    made["apiVersion"] = random.choice(("admission.k8s.io/v1", "admission.k8s.io/v1beta1"))
    if made["apiVersion"].endswith("beta1") and operation == "CREATE":
        del obj["apiVersion"], obj["kind"], made["request"]["requestKind"]
    return made


def _valid(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    return sent


def _cut(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    return sent._replace(body=sent.body[: random.randrange(len(sent.body))], codes=frozenset({400}))


def _flipped(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    body = bytearray(sent.body)
    for _ in range(random.randint(1, 8)):
        body[random.randrange(len(body))] = random.randrange(256)
    return sent._replace(body=bytes(body), codes=ANY)


def _mutated(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    """Replace or drop values anywhere."""
    changed = copy.deepcopy(document)
    for _ in range(random.randint(1, 3)):
        place: Any = changed
        while True:
            name = random.choice(list(place) if isinstance(place, dict) else range(len(place)))
            inner = place[name]
            if not isinstance(inner, dict | list) or not inner or random.random() < 0.2:
                break
            place = inner
        if random.random() < 0.3:
            del place[name]
            if not changed:
                break
        else:
            place[name] = random.choice(JUNK)
    return sent._replace(body=json.dumps(changed).encode(), codes=ANY)


def _huge(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    size = MAX_BODY_BYTES + random.choice((-1000, 0, 1, 1000))
    body = sent.body + b" " * (size - len(sent.body))
    return sent._replace(body=body, codes=frozenset({413 if size > MAX_BODY_BYTES else 200}))


def _deep(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    """Nest a field that the type does not know: known and unknown fields are read differently."""
    depth = random.choice((100, 900, 1100, 9_000, 50_000))
    nested = b'{"unknown":' + b'{"a":' * depth + b"1" + b"}" * depth + b","
    body = sent.body.replace(b'"spec": {', b'"spec": ' + nested, 1)
    return sent._replace(body=body, codes=ANY)


def _wrong_version(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    change = random.choice(
        (
            {"apiVersion": "admission.k8s.io/v2"},
            {"apiVersion": "v1"},
            {"apiVersion": ""},
            {"kind": "Review"},
            {"kind": ""},
        )
    )
    return sent._replace(body=json.dumps({**document, **change}).encode(), codes=frozenset({400}))


def _wrong_request(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    name, values = random.choice(
        (
            ("uid", ("", None, 3, ["a"], {})),
            ("operation", ("", "create", "PATCH", None, 1)),
            ("kind", ({"group": "", "version": "v1", "kind": "Pod"}, None, {}, "Website")),
        )
    )
    request = {**document["request"], name: random.choice(values)}
    if name == "uid" and random.random() < 0.3:
        del request["uid"]
    return sent._replace(body=json.dumps({**document, "request": request}).encode(), codes=frozenset({400}))


def _no_object(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    body = random.choice(
        (b"", b"null", b"[]", b"{}", b'""', b"\xef\xbb\xbf{}", b"NaN", b"\x00", b"<html>", b"{" * 9999)
    )
    return sent._replace(body=body, codes=frozenset({400}))


def _wrong_text(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    encoded = sent.body.decode().encode(random.choice(("utf-16", "utf-32", "utf-8-sig")))
    return sent._replace(body=encoded, codes=frozenset({400}))


def _wrong_content_type(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    wrong = random.choice(("", "text/json", "application/yaml", "application/vnd.kubernetes.protobuf", "json", "\x00"))
    return sent._replace(content_type=wrong, codes=frozenset({415}))


def _wrong_path(random: Random, sent: Sent, document: dict[str, Any]) -> Sent:
    wrong = random.choice(
        ("", "/", "/mutate", f"{sent.path}/", sent.path.upper(), f"/..{sent.path}", "/convert", "/\ud800")
    )
    return sent._replace(path=wrong, codes=frozenset({404}))


Change = Callable[[Random, Sent, dict[str, Any]], Sent]
# With their weights; huge bodies take time.
CHANGES: dict[Change, float] = {
    _valid: 4, _cut: 3, _flipped: 4, _mutated: 8, _huge: 0.05, _deep: 0.5, _wrong_version: 1, _wrong_request: 2,
    _no_object: 1, _wrong_text: 0.5, _wrong_content_type: 1, _wrong_path: 1,
}  # fmt: skip
