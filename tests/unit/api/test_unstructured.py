import gc
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.meta import Key, MicroTime, Object, ObjectMeta
from kcr.api.unstructured import unstructured
from kcr_devcluster.apiserver.patch import merge_patch

Widget = unstructured("example.dev/v1", "Widget", plural="widgets")


class WidgetSpec(Object):
    size: int
    since: MicroTime | None = None


def widget(**fields: object) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}
    return {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": metadata, **fields}


def decoded(**fields: object) -> Any:
    return codec.decode(Widget, msgspec.json.encode(widget(**fields)))


# ST-10: metadata is typed, the other fields are bytes until they are read. CL-6 row: objects without a type.


def test_metadata_is_typed_and_fields_are_decoded_when_read() -> None:
    obj = decoded(spec={"size": 3}, status={"ready": True}, extra=[1, "x"])
    assert (obj.key, obj.metadata.resource_version) == (Key("n", "a"), "7")
    assert obj.fields == {"spec": b'{"size":3}', "status": b'{"ready":true}', "extra": b'[1,"x"]'}
    assert (obj.get("spec"), obj.get("extra"), obj.get("none")) == ({"size": 3}, [1, "x"], None)


def test_field_is_read_as_a_type_when_asked() -> None:
    spec = decoded(spec={"size": 3, "since": "2026-01-01T00:00:00.000000Z"}).get("spec", WidgetSpec)
    assert (spec.size, type(spec.since)) == (3, MicroTime)
    assert decoded().get("spec", WidgetSpec) is None
    with pytest.raises(msgspec.ValidationError, match=r"\$\.size"):
        decoded(spec={"size": "big"}).get("spec", WidgetSpec)


def test_what_was_read_is_the_callers_own() -> None:
    obj = decoded(spec={"list": []})
    obj.get("spec")["list"].append(1)
    assert obj.get("spec") == {"list": []}


def test_whole_object_comes_back_from_its_wire_form() -> None:
    manifest = widget(spec={"size": 3, "nested": {"null": None}}, status=None)
    assert msgspec.json.decode(codec.encode(decoded(**{k: manifest[k] for k in ("spec", "status")}))) == manifest


def test_managed_fields_fall_away() -> None:
    manifest = widget()
    manifest["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    assert b"managedFields" not in codec.encode(codec.decode(Widget, msgspec.json.encode(manifest)))


def test_page_and_events_hold_objects_of_the_kind() -> None:
    page = msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": [widget(spec={}), widget()]})
    metadata, items = codec.decode_items(Widget, page)
    assert (metadata.resource_version, [type(item) for item in items]) == ("9", [Widget, Widget])
    event = codec.decode_event(Widget, msgspec.json.encode({"type": "ADDED", "object": widget(spec={"size": 1})}))
    assert (event.type, event.object) == ("ADDED", decoded(spec={"size": 1}))


def test_fields_do_not_pin_the_page_they_came_in() -> None:
    # ST-7.
    obj = codec.decode(Widget, b'{"spec":{"size":3},"metadata":{"name":"a"},"apiVersion":"' + b"x" * 100_000 + b'"}')
    held = [*obj.fields.values(), *gc.get_referents(*obj.fields.values())]
    assert all(type(one) is bytes and len(one) < 100 for one in held)


def test_objects_are_invisible_to_the_collector() -> None:
    # ST-3, ST-4: nothing of a cached object may make a full collection longer.
    obj = decoded(spec={"deep": [{"er": {}}]})
    gc.collect()
    assert not [one for one in (obj, obj.metadata) if gc.is_tracked(one)]
    # Python 3.14 tracks every dict.
    assert gc.is_tracked(obj.fields) == (sys.version_info >= (3, 14))


def test_same_kind_is_the_same_type() -> None:
    assert unstructured("example.dev/v1", "Widget", plural="widgets", namespaced=True) is Widget
    assert unstructured("example.dev/v2", "Widget", plural="widgets") is not Widget
    assert Widget.resource.path("n", "a") == "/apis/example.dev/v1/namespaces/n/widgets/a"
    assert not unstructured("v1", "Realm", plural="realms", namespaced=False).resource.namespaced


def test_manifest_becomes_an_object_of_its_kind() -> None:
    assert Widget.of(widget(spec={"size": 3})) == decoded(spec={"size": 3})
    assert Widget.of({"metadata": {"name": "a"}}).metadata == ObjectMeta(name="a")


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        pytest.param({"kind": "Gadget"}, "Widget: the manifest has kind 'Gadget', not 'Widget'", id="kind"),
        pytest.param({"apiVersion": "v1"}, "the manifest has apiVersion 'v1', not 'example.dev/v1'", id="version"),
        pytest.param({"metadata": {"name": 5}}, r"metadata: .*\$\.name", id="metadata"),
    ],
)
def test_manifest_of_something_else_is_refused(manifest: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Widget.of(manifest)


def test_change_makes_a_copy() -> None:
    old = decoded(spec={"size": 3}, status={"ready": True})
    new = old.changed(spec=WidgetSpec(size=4), status=None)
    assert (new.get("spec"), "status" in new.fields, old.get("spec")) == ({"size": 4}, False, {"size": 3})


def test_difference_reaches_into_the_fields() -> None:
    old = decoded(spec={"size": 3, "color": "red"}, status={"ready": True})
    new = old.changed(spec={"size": 4, "color": "red"}, status=None)
    new = replace(new, metadata=replace(new.metadata, labels={"k": "v"}))
    assert codec.encode(codec.difference(old, new)) == (
        b'{"metadata":{"labels":{"k":"v"}},"spec":{"size":4},"status":null}'
    )


def in_order(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def test_true_is_not_taken_for_one() -> None:
    old = decoded(spec={"on": True, "all": [False]})
    assert codec.difference(old, old.changed(spec={"on": 1, "all": [0]})) == {"spec": {"on": 1, "all": [0]}}


values = st.recursive(
    st.booleans() | st.integers(0, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
contents = st.dictionaries(st.sampled_from(["spec", "status", "data"]), values)


@given(contents)
def test_spelling_of_a_field_is_no_difference(fields: dict[str, Any]) -> None:
    spaced = {name: b" " + msgspec.json.format(msgspec.json.encode(value)) for name, value in fields.items()}
    assert not codec.difference(decoded(**fields), replace(decoded(), fields=spaced))


@given(contents, contents)
def test_difference_leads_from_the_old_object_to_the_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = codec.difference(decoded(**old), decoded(**new))
    wire = merge_patch(widget(**old), msgspec.json.decode(codec.encode(patch or {})))
    assert in_order(wire) == in_order(widget(**new))
