"""Whatever bytes come, decoding yields objects, sets some apart or raises kcr's errors; nothing else gets out."""

import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import kcr
from kcr.api.batch import CronJob, Job
from kcr.api.codec import WatchEvent
from kcr.api.core import Event, Pod
from kcr.api.meta import Resource
from kcr.client import Client
from kcr.client.wire.decoding import Undecodable, error_from, read_event, read_object, read_page
from kcr.errors import ApiError, TransportError
from kcr.informer import Informer, Selection
from kcr.informer.accumulator import ListAccumulator
from kcr.informer.phases import LostEventError
from kcr.testing import FakeSource

DOCUMENTS = 1_000
SOAK_DOCUMENTS = 20_000


class Website(kcr.Resource, api_version="example.dev/v1", plural="websites"):
    spec: dict[str, Any] = {}
    size: float = 0.0


KINDS: tuple[type[Resource], ...] = (
    Pod, Job, CronJob, Event, Website, kcr.unstructured("example.dev/v1", "Widget", plural="widgets"),
)  # fmt: skip

METADATA = {
    "name": "a", "namespace": "default", "uid": "1", "resourceVersion": "5", "labels": {"app": "a"},
    "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "2", "controller": True}],
}  # fmt: skip
TOKENS = (
    b"null", b"true", b"{}", b"[]", b'""', b"0", b"-1", b"1e400", b"1e999999999", b"9" * 400, b"NaN", b'"\xff"',
    b"\xff", b'"\\ud800"', b'"\\u0000"', b"\x00", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\xed\xa0\x80",
    b"[" * 1_200 + b"]" * 1_200, b'{"a":' * 12_000 + b"1" + b"}" * 12_000, b"[" * 20_000,
    b'"2026-13-45T99:00:00Z"', b'"0001-01-01T00:00:00Z"', b'"99999-01-01T00:00:00Z"',
)  # fmt: skip


def document(random: Random) -> bytes:
    made = random.choice(
        [
            {"spec": {"containers": [{"name": "a", "image": "b"}]}, "status": {"phase": "Running", "conditions": []}},
            {"spec": {"parallelism": 2, "template": {"spec": {"restartPolicy": "Never"}}}, "status": {"active": 1}},
            {"spec": {"schedule": "* * * * *", "jobTemplate": {}}, "status": {"lastScheduleTime": None}},
            {"size": 3, "spec": {"a": [1, {"b": None}]}},
        ]
    )
    return json.dumps({"metadata": {**METADATA, "name": random.choice("abc")}, **made}).encode()


def mutated(random: Random, data: bytes) -> bytes:
    for _ in range(random.choice((0, 1, 1, 1, 2, 4))):
        begin = random.randrange(len(data) + 1)
        end = min(len(data), begin + random.choice((0, 0, 1, 3, 10, 100)))
        values = [match.end() for match in re.finditer(rb"[:,\[]", data[:10_000])]
        if values and random.random() < 0.6:
            # Where a value begins, instead of the value or of a part of it.
            begin = random.choice(values)
            found = re.compile(rb"[,\]}]").search(data, begin)
            end = found.start() if found else begin
        data = data[:begin] + random.choice((b"", *TOKENS)) + data[end:]
    return data


class Reader:
    """An informer that is given what decodes, as by its reflector."""

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self.informer = Informer(Client(FakeSource(kind)), kind)
        self.informer.store.add_index("field:spec.a")
        self._list = ListAccumulator(Selection(kind), self.informer.writer, Counter())

    def lists(self, body: bytes) -> None:
        self._list.clear()
        page = read_page(self.kind, body)
        for found in (*page.objects, *page.undecodable):
            self._list.add(found)
        for _ in self._list.replace(page.metadata.resource_version):
            pass

    def watches(self, line: bytes) -> None:
        event = read_event(self.kind, line)
        assert isinstance(event, WatchEvent | Undecodable)
        self._list.apply(event)

    def gets(self, body: bytes) -> None:
        read_object(self.kind, body)

    def is_refused(self, body: bytes) -> None:
        assert isinstance(error_from(404, {}, body, "/apis/batch/v1/jobs/a"), ApiError)


def wrapped(random: Random, reader: Reader) -> tuple[Callable[[bytes], None], bytes]:
    one = document(random)
    match random.randrange(4):
        case 0:
            items = b",".join([document(random), one])
            return reader.lists, b'{"kind":"List","metadata":{"resourceVersion":"9"},"items":[%s]}' % items
        case 1:
            type_ = random.choice((b"ADDED", b"MODIFIED", b"DELETED", b"BOOKMARK", b"ERROR", b"OTHER"))
            return reader.watches, b'{"type":"%s","object":%s}' % (type_, one)
        case 2:
            status = b'{"kind":"Status","code":404,"reason":"NotFound","details":{"name":"a","causes":[{"field":"b"}]}}'
            return reader.is_refused, status
    return reader.gets, one


def nothing_escapes(seed: int, count: int) -> None:
    random = Random(seed)
    readers = [Reader(kind) for kind in KINDS]
    for number in range(count):
        read, data = wrapped(random, random.choice(readers))
        data = mutated(random, data)
        try:
            # What a reflector handles.
            with suppress(ApiError, TransportError, LostEventError):
                read(data)
        except Exception as error:
            raise AssertionError(f"seed {seed}, document {number}: {data[:2000]!r}") from error


def test_nothing_escapes_from_mutated_documents() -> None:
    nothing_escapes(1, DOCUMENTS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_nothing_escapes_from_many_mutated_documents(seed: int) -> None:
    nothing_escapes(seed, SOAK_DOCUMENTS // 20)
