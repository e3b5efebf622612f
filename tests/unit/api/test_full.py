"""The complete types keep every field of their kind, and no view is among them."""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from random import Random
from typing import Any, get_args

import msgspec
import pytest

import kcr
import kcr.api.full
from kcr.api import apps, batch, codec, coordination, core, scheduling
from kcr.api.full.autoscaling_v2 import HorizontalPodAutoscaler
from kcr.api.full.core_v1 import PodTemplateSpec, Secret
from kcr.api.full.rbac_v1 import Role
from kcr.api.structural import object_schema
from kcr_devcluster.apiserver.kinds.definitions.schema_rules import schema_errors
from kcr_devcluster.apiserver.schema.builtin import ALL
from kcr_devcluster.builtin_types import builtin_kind
from tests.kit.drawn_objects import builtin_object, fields_of

MODULES = [importlib.import_module(f"kcr.api.full.{one.name}") for one in pkgutil.iter_modules(kcr.api.full.__path__)]
KINDS = [
    one for module in MODULES for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, kcr.FullResource) and one.__module__ == module.__name__
]  # fmt: skip

SMALL = [
    one for module in (apps, batch, coordination, core, scheduling) for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, kcr.Resource) and one.__module__ == module.__name__
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_complete_type_keeps_everything(kind: type[kcr.FullResource]) -> None:
    name = builtin_kind(kind.resource.api_version, kind.resource.kind).type
    for seed in range(5):
        drawn = builtin_object(name, Random(seed), version=ALL)
        drawn |= {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        assert msgspec.json.decode(codec.encode(codec.decode(kind, msgspec.json.encode(drawn)))) == drawn


def test_views_have_complete_types_where_errors_say() -> None:
    for view in [kind for kind in SMALL if issubclass(kind, kcr.ResourceView)]:
        group, version = view.resource.group.partition(".")[0] or "core", view.resource.version
        home = importlib.import_module(f"kcr.api.full.{group}_{version}")
        assert getattr(home, view.resource.kind).resource == view.resource


# Types in which kcr writes what it makes by itself.
ALPHA = (scheduling.Workload, scheduling.PodGroup, scheduling.BetaWorkload, scheduling.BetaPodGroup)


@pytest.mark.parametrize("kind", SMALL, ids=lambda kind: kind.__name__)
def test_type_that_is_no_view_has_all_fields(kind: type[kcr.Resource]) -> None:
    name = builtin_kind(kind.resource.api_version, kind.resource.kind).type
    is_complete = not list(missing_fields(kind, name))
    assert is_complete == issubclass(kind, kcr.FullResource)
    assert is_complete != issubclass(kind, kcr.ResourceView) or kind in ALPHA


def missing_fields(kind: type[msgspec.Struct], type_name: str) -> Iterator[str]:
    """Yield the fields of a built-in type that a class does not have, but those of its metadata."""
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, inner in fields_of(type_name).items():
        if name not in known and name not in ("apiVersion", "kind"):
            yield f"{type_name}.{name}"
        for struct in structs_in(known.get(name)):
            if name != "metadata":
                yield from missing_fields(struct, inner)


def structs_in(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for one in get_args(annotation):
        yield from structs_in(one)


def test_pod_template_has_a_schema() -> None:
    class Spec(kcr.Object):
        template: PodTemplateSpec

    assert schema_errors(object_schema(Spec), "", has_status=False) == []


def test_null_is_an_empty_list_as_in_go() -> None:
    # Kubernetes writes null for lists without omitempty.
    assert codec.decode(Role, b'{"rules":null}').rules == ()
    scaler = b'{"spec":{"maxReplicas":1,"scaleTargetRef":{"kind":"a","name":"b"}},"status":{"desiredReplicas":0,%s}}'
    nulls = scaler % b'"conditions":null,"currentMetrics":null'
    _, (first, second) = codec.decode_items(HorizontalPodAutoscaler, b'{"items":[%s,%s]}' % (nulls, nulls))
    assert first.status == second.status
    assert first.status is not None
    assert first.status.current_metrics == ()


def test_null_entry_of_a_map_is_empty_as_in_go() -> None:
    secret = codec.decode(Secret, b'{"metadata":{"labels":{"a":null}},"data":{"b":null}}')
    assert (secret.metadata.labels, secret.data) == ({"a": ""}, {"b": b""})
    with pytest.raises(msgspec.ValidationError):
        codec.decode(Secret, b'{"data":{"b":1,"c":null}}')


def test_nulls_of_all_fields_and_items_are_dropped() -> None:
    # Those of an opaque field are its owner's.
    rules = b'[{"verbs":["get"],"resources":null,"apiGroups":null},{"verbs":["list"],"resourceNames":null}]'
    event = codec.decode_event(Role, b'{"type":"ADDED","object":{"metadata":{"labels":null},"rules":%s}}' % rules)
    assert [rule.verbs for rule in event.object.rules] == [("get",), ("list",)]
    assert event.object.metadata.labels == {}
    definition = importlib.import_module("kcr.api.full.apiextensions_v1").CustomResourceDefinition
    schema = b'{"openAPIV3Schema":{"properties":{"a":{"required":null,"default":{"b":null}}}}}'
    names = b'{"kind":"A","plural":"as","shortNames":null}'
    versions = b'[{"name":"v1","served":true,"storage":true,"schema":%s}]' % schema
    spec = b'{"group":"g.dev","scope":"Cluster","names":%s,"versions":%s}' % (names, versions)
    kept = codec.decode(definition, b'{"spec":%s}' % spec).spec.versions[0].schema.open_api_v3_schema.properties["a"]
    assert (kept.required, bytes(kept.default)) == ((), b'{"b":null}')


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"rules":[{"verbs":null}]}', id="required"),
        pytest.param(b'{"rules":[null]}', id="item"),
        pytest.param(b'{"rules":5}', id="other-type"),
    ],
)
def test_what_is_wrong_stays_an_error(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        codec.decode(Role, body)


def test_opaque_fields_do_not_pin_the_page_they_came_in() -> None:
    # ST-7.
    definition = importlib.import_module("kcr.api.full.apiextensions_v1").CustomResourceDefinition
    schema = b'{"openAPIV3Schema":{"properties":{"a":{"default":{"b":1}}}}}'
    versions = b'[{"name":"v1","served":true,"storage":true,"schema":%s}]' % schema
    names = b'{"kind":"A","plural":"as"}'
    spec = b'{"group":"g.dev","scope":"Cluster","names":%s,"versions":%s}' % (names, versions)
    body = b'{"spec":%s,"padding":"%s"}' % (spec, b"x" * 100_000)
    before = sys.getrefcount(body)
    found = codec.decode(definition, body)
    # The collector does not see what a Raw refers to.
    assert sys.getrefcount(body) == before
    default = found.spec.versions[0].schema.open_api_v3_schema.properties["a"].default
    assert bytes(default) == b'{"b":1}'


def test_secret_is_not_shown() -> None:
    assert "hidden" not in repr(Secret(metadata=kcr.ObjectMeta(name="a"), data={"a": b"hidden"}))
