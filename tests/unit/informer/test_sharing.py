from collections.abc import Mapping
from typing import Any

import pytest

from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Object
from kcr.informer.sharing import share


def pod(phase: str, *conditions: tuple[str, str], node: str = "n") -> Pod:
    found = ",".join(f'{{"type":"{kind}","status":"{status}"}}' for kind, status in conditions)
    text = f'{{"metadata":{{"name":"p","uid":"u-{phase}"}},"spec":{{"nodeName":"{node}"}},'
    return codec.decode(Pod, f'{text}"status":{{"phase":"{phase}","conditions":[{found}]}}}}'.encode())


def test_equal_parts_become_one() -> None:
    old, new = pod("Pending", ("Ready", "False")), pod("Running", ("Ready", "False"))
    share(new, old, None)
    assert new.spec is old.spec
    assert new.status.conditions is old.status.conditions
    assert new.status.phase == "Running"


def test_value_stays_equal_to_what_it_was() -> None:
    old, new = pod("Pending", ("A", "True"), node="x"), pod("Running", ("A", "False"), ("B", "True"), node="y")
    share(new, old, pod("Running", ("C", "True")))
    assert new == pod("Running", ("A", "False"), ("B", "True"), node="y")
    assert codec.encode(new) == codec.encode(pod("Running", ("A", "False"), ("B", "True"), node="y"))


def test_spare_is_used_where_the_known_value_differs() -> None:
    old, spare, new = pod("Pending"), pod("Running", ("Ready", "True")), pod("Running", ("Ready", "True"))
    share(new, old, spare)
    assert new.status is spare.status


def test_unknown_words_are_held_once() -> None:
    first, second = pod("Running", ("Ready", "True")), pod("Running", ("Ready", "True"))
    for found in (first, second):
        share(found, pod("Pending", ("Other", "No"), node="x"), None)
    assert second.status.phase is first.status.phase
    assert second.status.conditions[0].type is first.status.conditions[0].type
    assert second.spec.node_name is first.spec.node_name


def test_names_and_uids_stay_their_own() -> None:
    old, new = pod("Pending"), pod("Running")
    share(new, old, None)
    assert new.metadata.uid == "u-Running"
    assert new.metadata.name is not old.metadata.name


def test_zero_and_absence_are_not_confused() -> None:
    old = codec.decode(Job, b'{"status":{"active":1}}')
    new = codec.decode(Job, b'{"status":{"active":1,"ready":0}}')
    share(new, old, None)
    assert new.status.ready == 0


def labelled(index: str) -> Pod:
    job = "batch.kubernetes.io/a-key-longer-than-what-the-decoder-keeps"
    labels = f'"{job}":"the-one-job","index":"{index}"'
    return codec.decode(Pod, f'{{"metadata":{{"labels":{{{labels}}}}}}}'.encode())


def test_unequal_maps_share_keys_and_equal_values() -> None:
    old, new = labelled("1"), labelled("2")
    share(old, labelled("0"), None)
    share(new, old, None)
    assert codec.encode(new) == codec.encode(labelled("2"))
    pairs = zip(old.metadata.labels.items(), new.metadata.labels.items(), strict=True)
    assert [(mine[0] is theirs[0], mine[1] is theirs[1]) for theirs, mine in pairs] == [(True, True), (True, False)]


def test_maps_share_with_the_spare_too() -> None:
    other, new = labelled("1"), labelled("2")
    share(new, pod("Running"), other)
    assert new == labelled("2")
    assert next(iter(new.metadata.labels.values())) is next(iter(other.metadata.labels.values()))


class Counts(Object):
    by_code: Mapping[int, object] = {}


def test_keys_and_values_of_maps_keep_their_types() -> None:
    old, new = Counts(by_code={200: True}), Counts(by_code={200: 1, 404: None})
    share(new, old, None)
    assert [type(value) for value in new.by_code.values()] == [int, type(None)]
    assert list(new.by_code) == [200, 404]


def test_value_of_another_type_is_ignored() -> None:
    new = pod("Running")
    share(new, codec.decode(Job, b"{}"), None)
    assert new == pod("Running")


class Settings(Object):
    """A value that may be anything."""

    value: Any = None
    values: Mapping[str, Any] = {}
    items: tuple[Any, ...] = ()


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(('{"value":1}', '{"value":true}'), id="scalar"),
        pytest.param(('{"value":[0]}', '{"value":[false]}'), id="list"),
        pytest.param(('{"values":{"a":{"b":1},"c":"same"}}', '{"values":{"a":{"b":1.0},"c":"same"}}'), id="map"),
        pytest.param(('{"items":[1,{"a":0}]}', '{"items":[true,{"a":false}]}'), id="items"),
        pytest.param(('{"value":"text"}', '{"value":{"a":1}}'), id="another-type"),
        pytest.param(('{"value":5}', '{"value":{"a":1}}'), id="map-instead-of-a-number"),
    ],
)
def test_equal_values_of_other_types_are_not_shared(texts: tuple[str, str]) -> None:
    for known, other in ((0, 1), (1, 0)):
        for fallback in (False, True):
            new = codec.decode(Settings, texts[other].encode())
            stored = codec.decode(Settings, texts[known].encode())
            share(new, None if fallback else stored, stored if fallback else None)
            assert codec.encode(new) == texts[other].encode()
