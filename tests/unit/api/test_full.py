"""The complete types keep every field of their kind, and no view is among them."""

import gc
import importlib
import pkgutil
from random import Random

import msgspec
import pytest

import kcr
import kcr.api.full
from kcr.api import apps, batch, codec, core
from kcr.api.full.autoscaling_v2 import HorizontalPodAutoscaler
from kcr.api.full.core_v1 import Secret
from kcr.api.full.rbac_v1 import Role
from kcr.codegen.builtin import builtin_kind
from tests.kit.drawn_objects import builtin_object

MODULES = [importlib.import_module(f"kcr.api.full.{one.name}") for one in pkgutil.iter_modules(kcr.api.full.__path__)]
KINDS = [
    one for module in MODULES for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, kcr.FullResource) and one.__module__ == module.__name__
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_complete_type_keeps_everything(kind: type[kcr.FullResource]) -> None:
    name = builtin_kind(kind.resource.api_version, kind.resource.kind).type
    for seed in range(5):
        drawn = builtin_object(name, Random(seed))
        drawn |= {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        assert msgspec.json.decode(codec.encode(codec.decode(kind, msgspec.json.encode(drawn)))) == drawn


def test_views_have_complete_types_where_errors_say() -> None:
    for module in (core, apps, batch):
        for view in vars(module).values():
            if isinstance(view, type) and issubclass(view, kcr.ResourceView) and view is not kcr.ResourceView:
                group, version = view.resource.group.partition(".")[0] or "core", view.resource.version
                home = importlib.import_module(f"kcr.api.full.{group}_{version}")
                assert getattr(home, view.__name__).resource == view.resource


def test_null_is_an_empty_list_as_in_go() -> None:
    # Kubernetes writes null for lists without omitempty.
    assert codec.decode(Role, b'{"rules":null}').rules == ()
    scaler = b'{"spec":{"maxReplicas":1,"scaleTargetRef":{"kind":"a","name":"b"}},"status":{"desiredReplicas":0,%s}}'
    nulls = scaler % b'"conditions":null,"currentMetrics":null'
    _, (first, second) = codec.decode_items(HorizontalPodAutoscaler, b'{"items":[%s,%s]}' % (nulls, nulls))
    assert first.status == second.status
    assert first.status is not None
    assert first.status.current_metrics == ()


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
    found = codec.decode(definition, b'{"spec":%s,"padding":"%s"}' % (spec, b"x" * 100_000))
    default = found.spec.versions[0].schema.open_api_v3_schema.properties["a"].default
    assert bytes(default) == b'{"b":1}'
    assert not any(isinstance(held, bytes) and len(held) > 1000 for held in gc.get_referents(default))


def test_secret_is_not_shown() -> None:
    assert "hidden" not in repr(Secret(metadata=kcr.ObjectMeta(name="a"), data={"a": b"hidden"}))
