import sys
import threading
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.batch import Job, JobStatus, UncountedTerminatedPods
from kcr.api.core import Pod, Secret
from kcr.api.full import core_v1 as full
from kcr.api.meta import ObjectMeta

names = st.sampled_from(["", "a", "b"])
labels = st.dictionaries(st.sampled_from(["k", "l"]), names)
uids = st.lists(st.sampled_from(["u", "v", "w"]), unique=True).map(tuple)
statuses = st.builds(
    JobStatus,
    active=st.integers(0, 3),
    ready=st.none() | st.integers(0, 2),
    uncounted_terminated_pods=st.none() | st.builds(UncountedTerminatedPods, succeeded=uids, failed=uids),
)
jobs = st.builds(Job, metadata=st.builds(ObjectMeta, name=names, labels=labels), status=statuses)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396, in its own words."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@given(jobs, jobs)
def test_difference_leads_from_the_old_value_to_the_new(old: Job, new: Job) -> None:
    patch = codec.difference(old, new)
    if patch is None:
        assert old == new
        return
    wire = merged(msgspec.json.decode(codec.encode(old)), msgspec.json.decode(codec.encode(patch)))
    assert codec.decode(Job, msgspec.json.encode(wire)) == new


def test_zero_is_told_from_absence() -> None:
    old = Job()
    new = replace(old, status=replace(old.status, ready=0, uncounted_terminated_pods=UncountedTerminatedPods()))
    assert codec.encode(codec.difference(old, new)) == b'{"status":{"ready":0,"uncountedTerminatedPods":{}}}'


def test_emptied_text_is_told_from_removed_text() -> None:
    assert codec.difference({"k": "a", "l": "b"}, {"k": ""}) == {"k": "", "l": None}
    assert codec.difference(ObjectMeta(name="a"), ObjectMeta()) == {"name": None}


def test_page_and_event_decode_to_typed_objects() -> None:
    page = b'{"metadata":{"resourceVersion":"7","continue":"t"},"items":[{"metadata":{"name":"a"}}]}'
    metadata, items = codec.decode_items(Pod, page)
    assert (metadata.resource_version, metadata.continue_, items[0].metadata.name) == ("7", "t", "a")
    assert codec.decode_items(Pod, b'{"metadata":{},"items":null}')[1] == ()
    assert codec.decode_event(Pod, b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}').object == items[0]
    status = codec.decode_error_event(b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}')
    assert (status.code, status.reason) == (410, "Expired")


def test_recursion_limit_is_raised_while_any_thread_needs_it() -> None:
    before = sys.getrecursionlimit()
    entered, left, finish = threading.Event(), threading.Event(), threading.Event()
    limits: list[int] = []

    def first() -> None:
        entered.set()
        assert finish.wait(10)

    def second() -> None:
        finish.set()
        assert left.wait(10)
        limits.append(sys.getrecursionlimit())

    def leave() -> None:
        codec._with_deep_recursion(first)
        left.set()

    thread = threading.Thread(target=leave)
    thread.start()
    try:
        assert entered.wait(10)
        codec._with_deep_recursion(second)
        thread.join()
        assert limits[0] > before
        assert sys.getrecursionlimit() == before
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("kind", [Secret, full.Secret])
@pytest.mark.parametrize("write", [codec.encode, lambda secret: codec.difference(replace(secret, data={}), secret)])
def test_text_for_the_bytes_of_a_secret_is_refused(kind: Any, write: Any) -> None:
    secret = kind(metadata=ObjectMeta(name="a", namespace="b"), data={"key": "password"})
    with pytest.raises(
        TypeError, match=r"Secret b/a: data\['key'\] is a text: give it bytes, or put it into string_data$"
    ):
        write(secret)
    assert write(replace(secret, data={"key": b"password"}, string_data={"other": "password"}))
