"""Custom resources: pruning, defaults, subresources, generation, columns, selectors.

Source: api-server §§7, 8, 12, 19, 21; kubernetes/staging/src/k8s.io/apiextensions-apiserver/test/integration.
"""

import pytest

from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import TABLE, Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, Json, definition, spec_schema, version, widget

pytestmark = pytest.mark.kcr_virtual
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}
OPEN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
STATUS: Json = {"type": "object", "properties": {"replicas": NUMBER, "selector": TEXT, "phase": TEXT}}
SCALE = {"specReplicasPath": ".spec.pool.size", "statusReplicasPath": ".status.replicas"}


def with_status(schema: Json) -> Json:
    return {**schema, "properties": {**schema["properties"], "status": STATUS}}


@pytest.mark.parametrize(
    ("schema", "given", "stored", "warnings"),
    [
        pytest.param({"type": "object", "properties": {"a": TEXT}}, {"a": "1", "b": {"c": 1}}, {"a": "1"},
                     ["spec.x.b"], id="unknown"),
        pytest.param({"type": "object"}, {"a": 1}, {}, ["spec.x.a"], id="no-fields"),
        pytest.param(OPEN, {"a": {"b": None}}, {"a": {"b": None}}, [], id="preserved"),
        pytest.param(
            {**OPEN, "properties": {"k": {"type": "object", "properties": {"a": TEXT}}}},
            {"z": 1, "k": {"a": "1", "b": 2}}, {"z": 1, "k": {"a": "1"}}, ["spec.x.k.b"], id="named-below-preserved",
        ),
        pytest.param({"type": "object", "additionalProperties": True}, {"a": 1}, {"a": 1}, [], id="any-entries"),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT}}},
            {"k": {"a": "1", "b": 1}}, {"k": {"a": "1"}}, ["spec.x.k.b"], id="entries",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
            [{"b": 1}, {"a": "1"}], [{}, {"a": "1"}], ["spec.x[0].b"], id="items",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": TEXT}},
            {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "x": 1}, "spec": "s", "y": 1},
            {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "spec": "s"},
            ["spec.x.metadata.x", "spec.x.y"], id="embedded",
        ),
        pytest.param({"type": "object", "properties": {"a": {"type": "string", "default": "d"}}}, {}, {"a": "d"}, [],
                     id="default"),
        pytest.param({"type": "string", "default": "d", "nullable": False}, None, "d", [], id="null-takes-default"),
        pytest.param({"type": "string", "nullable": True, "default": "d"}, None, None, [], id="null-stays"),
        pytest.param(
            {"type": "object", "default": {"b": 2}, "properties": {"a": {"type": "integer", "default": 1},
                                                                   "b": NUMBER}},
            None, {"b": 2, "a": 1}, [], id="default-in-a-default",
        ),
        pytest.param({"type": "object", "properties": {"a": TEXT, "b": NUMBER}}, {"a": "", "b": 0}, {"a": "", "b": 0},
                     [], id="zeros-stay"),
        pytest.param({"type": "object", "properties": {"a": TEXT}}, {"a": None}, {}, [], id="null-goes"),
    ],
)  # fmt: skip
async def test_objects_are_pruned_and_defaulted(
    api: Api, schema: Json, given: object, stored: object, warnings: list[str]
) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({"x": schema}))))
    reply = await api.call("POST", WIDGETS, widget("w", {"x": given}))
    assert reply.status == 201, reply.body
    assert reply.body["spec"] == {"x": stored}
    assert await api.get(f"{WIDGETS}/w") == reply.body
    said = reply.headers.get("Warning", "")
    assert [said.count(f'unknown field \\"{path}\\"') for path in warnings] == [1] * len(warnings)
    assert said.count("unknown field") == len(warnings)
    strict = await api.call("POST", f"{WIDGETS}?fieldValidation=Strict", widget("s", {"x": given}))
    assert strict.status == (400 if warnings else 201)


async def test_defaults_need_their_parent(api: Api) -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string", "default": "d"}}}
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({"x": inner}))))
    assert "spec" not in await api.post(WIDGETS, widget("none"))
    assert (await api.post(WIDGETS, widget("empty", {})))["spec"] == {}


async def test_default_added_later_shows_in_what_is_stored(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({"a": TEXT}))))
    await api.post(WIDGETS, widget("w", {}))
    watch = await api.watch(f"{WIDGETS}?")
    await watch.next()
    later = version(
        "v1", spec_schema({"a": {"type": "string", "default": "d"}}), selectableFields=[{"jsonPath": ".spec.a"}]
    )
    await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": {"versions": [later]}})
    assert (await api.get(f"{WIDGETS}/w"))["spec"] == {"a": "d"}
    assert len((await api.get(f"{WIDGETS}?fieldSelector=spec.a%3Dd"))["items"]) == 1
    with pytest.raises(StopAsyncIteration):
        await watch.next()


async def test_status_is_written_through_its_subresource_alone(api: Api) -> None:
    schema = with_status(spec_schema({"a": NUMBER}))
    await api.post(DEFINITIONS, definition(version("v1", schema, subresources={"status": {}})))
    made = await api.post(WIDGETS, widget("w", {"a": 1}, status={"phase": "Early"}))
    assert "status" not in made
    same = await api.patch(f"{WIDGETS}/w", {"status": {"phase": "No"}})
    assert same == made
    change = {"status": {"phase": "Up"}, "spec": {"a": 2}, "metadata": {"labels": {"a": "b"}}}
    written = await api.patch(f"{WIDGETS}/w/status", change)
    assert (written["status"], written["spec"]) == ({"phase": "Up"}, {"a": 1})
    assert "labels" not in written["metadata"]
    assert written["metadata"]["generation"] == 1
    emptied = await api.put(f"{WIDGETS}/w/status", {key: value for key, value in written.items() if key != "status"})
    assert "status" not in emptied
    reply = await api.call(
        "PATCH", f"{WIDGETS}/w/status", {"status": {"phase": 1}}, content_type="application/merge-patch+json"
    )
    assert reply.body["message"] == (
        'Widget.ex.io "w" is invalid: status.phase: Invalid value: "integer": phase in body must be of type string: '
        '"integer"'
    )


async def test_status_without_subresource_is_plain_data(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", with_status(spec_schema({})))))
    made = await api.post(WIDGETS, widget("w", {}, status={"phase": "Up"}))
    assert made["status"] == {"phase": "Up"}
    changed = await api.patch(f"{WIDGETS}/w", {"status": {"phase": "Down"}})
    assert changed["metadata"]["generation"] == 2
    reply = await api.call("GET", f"{WIDGETS}/w/status")
    assert (reply.status, reply.body["message"]) == (404, 'widgets.ex.io "w" not found')


async def test_generation_grows_with_anything_but_metadata(api: Api) -> None:
    schema = spec_schema({"a": NUMBER})
    schema["properties"]["data"] = TEXT
    await api.post(DEFINITIONS, definition(version("v1", schema)))
    await api.post(WIDGETS, widget("w", {"a": 1}))
    changes: list[tuple[Json, int]] = [
        ({"metadata": {"labels": {"a": "b"}}}, 1), ({"spec": {"a": 2}}, 2), ({"data": "x"}, 3), ({"data": "x"}, 3),
    ]  # fmt: skip
    for change, generation in changes:
        assert (await api.patch(f"{WIDGETS}/w", change))["metadata"]["generation"] == generation


async def test_scale_reads_and_writes_its_paths(api: Api) -> None:
    schema = with_status(spec_schema({"pool": {"type": "object", "properties": {"size": NUMBER}}}))
    scale = {**SCALE, "labelSelectorPath": ".status.selector"}
    await api.post(DEFINITIONS, definition(version("v1", schema, subresources={"status": {}, "scale": scale})))
    await api.post(WIDGETS, widget("w", {}))
    missing = await api.call("GET", f"{WIDGETS}/w/scale")
    assert (missing.status, missing.body["message"]) == (
        500, 'Internal error occurred: the spec replicas field ".spec.pool.size" does not exist',
    )  # fmt: skip
    await api.patch(f"{WIDGETS}/w", {"spec": {"pool": {"size": 2}}})
    await api.patch(f"{WIDGETS}/w/status", {"status": {"replicas": 1, "selector": "a=b"}})
    found = await api.get(f"{WIDGETS}/w/scale")
    assert (found["apiVersion"], found["kind"]) == ("autoscaling/v1", "Scale")
    assert (found["spec"], found["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    await api.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 5}})
    after = await api.get(f"{WIDGETS}/w")
    assert (after["spec"], after["metadata"]["generation"]) == ({"pool": {"size": 5}}, 3)
    reply = await api.call("POST", WIDGETS, widget("n", {"pool": {"size": -1}}))
    assert reply.body["message"] == (
        'Widget.ex.io "n" is invalid: .spec.pool.size: Invalid value: -1: should be a non-negative integer'
    )


async def test_put_needs_a_version_and_strategic_patches_are_refused(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({}))))
    await api.post(WIDGETS, widget("w", {}))
    put = await api.call("PUT", f"{WIDGETS}/w", widget("w", {}))
    assert put.body["message"] == (
        'widgets.ex.io "w" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update'
    )
    patch = await api.call("PATCH", f"{WIDGETS}/w", {}, content_type="application/strategic-merge-patch+json")
    assert patch.status == 415
    assert "strategic" not in patch.body["message"]


async def test_items_of_lists_say_what_they_are(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({})), listKind="Widgets"))
    await api.post(WIDGETS, widget("w", {}))
    found = await api.get(WIDGETS)
    assert (found["kind"], found["metadata"]["continue"]) == ("Widgets", "")
    assert [(one["apiVersion"], one["kind"]) for one in found["items"]] == [("ex.io/v1", "Widget")]


COLUMNS: list[tuple[Json, object]] = [
    ({"name": "Text", "type": "string", "jsonPath": ".spec.text"}, "a"),
    ({"name": "List", "type": "string", "jsonPath": ".spec.list"}, "[1,2]"),
    ({"name": "First", "type": "integer", "jsonPath": ".spec.list[0]", "priority": 1}, 1),
    ({"name": "Float", "type": "number", "jsonPath": ".spec.list[1]"}, 2),
    ({"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag", "description": "D", "format": "byte"}, True),
    ({"name": "Wrong", "type": "integer", "jsonPath": ".spec.text"}, None),
    ({"name": "Missing", "type": "string", "jsonPath": ".spec.none.at.all"}, None),
    ({"name": "Found", "type": "string", "jsonPath": '.spec.items[?(@.name=="b")].value'}, "2"),
    ({"name": "Since", "type": "date", "jsonPath": ".spec.since"}, "2m"),
    ({"name": "Bad", "type": "date", "jsonPath": ".spec.text"}, "<invalid>"),
    ({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}, "2m"),
]


async def test_columns_show_what_their_paths_find(api: Api, kcr_clock: VirtualClock) -> None:
    columns = [column for column, _ in COLUMNS]
    made = version("v1", {"type": "object", "properties": {"spec": OPEN}}, additionalPrinterColumns=columns)
    await api.post(DEFINITIONS, definition(made))
    items = [{"name": "a", "value": 1}, {"name": "b", "value": 2}]
    spec = {"text": "a", "list": [1, 2], "flag": True, "items": items, "since": "2026-01-01T00:00:00Z"}
    await api.post(WIDGETS, widget("w", spec))
    await kcr_clock.advance(120)
    table = await api.get(WIDGETS, accept=TABLE)
    assert table["rows"][0]["cells"] == ["w", *(cell for _, cell in COLUMNS)]
    assert [one["priority"] for one in table["columnDefinitions"]] == [0, 0, 0, 1, *[0] * 8]
    described = {one["name"]: one["description"] for one in table["columnDefinitions"]}
    assert described["Text"] == "Custom resource definition column (in JSONPath format): .spec.text"
    assert described["Flag"] == "D"


async def test_tables_without_columns_show_the_age(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({}))))
    await api.post(WIDGETS, widget("w", {}))
    table = await api.get(WIDGETS, accept=TABLE)
    assert [(one["name"], one["type"]) for one in table["columnDefinitions"]] == [("Name", "string"), ("Age", "date")]
    assert table["rows"][0]["cells"] == ["w", "0s"]


async def test_selectable_fields_select(api: Api) -> None:
    fields = [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.flag"}]
    schema = spec_schema({"color": TEXT, "flag": {"type": "boolean"}})
    await api.post(DEFINITIONS, definition(version("v1", schema, selectableFields=fields)))
    await api.post(WIDGETS, widget("a", {"color": "red", "flag": True}))
    await api.post(WIDGETS, widget("b", {"color": "blue"}))

    async def names(selector: str) -> list[str]:
        found = await api.get(f"{WIDGETS}?fieldSelector={selector}")
        return [one["metadata"]["name"] for one in found["items"]]

    assert await names("spec.color%3Dred") == ["a"]
    assert await names("spec.flag%3Dtrue") == ["a"]
    assert await names("spec.color!%3Dred,metadata.name%3Db") == ["b"]
    reply = await api.call("GET", f"{WIDGETS}?fieldSelector=spec.size%3D1")
    assert (reply.status, reply.body["message"]) == (400, "field label not supported: spec.size")


async def test_each_version_has_selectable_fields_of_its_own(api: Api) -> None:
    schema = spec_schema({"color": TEXT})
    old = version("v1beta1", schema, storage=False, selectableFields=[{"jsonPath": ".spec.color"}])
    await api.post(DEFINITIONS, definition(version("v1", schema), old))
    await api.post(WIDGETS, widget("a", {"color": "red"}))
    path = WIDGETS.replace("v1", "v1beta1")
    assert len((await api.get(f"{path}?fieldSelector=spec.color%3Dred"))["items"]) == 1
    assert (await api.call("GET", f"{WIDGETS}?fieldSelector=spec.color%3Dred")).status == 400


async def test_finalizer_without_domain_is_a_warning(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({}))))
    made = widget("w", {})
    made["metadata"]["finalizers"] = ["mine", "ex.io/other"]
    reply = await api.call("POST", WIDGETS, made)
    assert reply.status == 201
    assert reply.headers["Warning"] == (
        '299 - "metadata.finalizers: \\"mine\\": prefer a domain-qualified finalizer name to avoid accidental '
        'conflicts with other finalizer writers"'
    )


async def test_cluster_scoped_resources_have_no_namespace(api: Api) -> None:
    made = definition(version("v1", spec_schema({})))
    made["spec"]["scope"] = "Cluster"
    await api.post(DEFINITIONS, made)
    created = await api.post("/apis/ex.io/v1/widgets", widget("w", {}))
    assert "namespace" not in created["metadata"]
    assert (await api.call("POST", WIDGETS, widget("w", {}))).status == 404
