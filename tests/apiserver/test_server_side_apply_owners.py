"""Server-side apply: who owns what after a sequence of writes (AS 11.2 to 11.6, 8.8).

Source: kubernetes/test/integration/apiserver/apply/{apply,reset_fields,scale,status}_test.go;
structured-merge-diff/merge/*_test.go.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.apply import fieldpath
from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, definition, version

pytestmark = pytest.mark.kcr_virtual

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TARGET = f"{CONFIG_MAPS}/a"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/a"
SERVICE = "/api/v1/namespaces/default/services/a"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
HEAD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def config_map(metadata: Any = None, **data: str) -> dict[str, Any]:
    return {**HEAD, "metadata": {"name": "a", **(metadata or {})}, "data": data}


def deployment(**spec: Any) -> dict[str, Any]:
    labels = {"app": "a"}
    pod = {"containers": [{"name": "c", "image": "x"}], **spec.pop("pod", {})}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }  # fmt: skip


def owners(obj: Any) -> dict[str, list[str]]:
    """Return the paths that each manager owns; updates are marked, and subresources named."""
    return {
        f"{entry['manager']}{'' if entry['operation'] == 'Apply' else '*'}{entry.get('subresource', '')}": list(
            fieldpath.paths(fieldpath.decode(entry["fieldsV1"]))
        )
        for entry in obj["metadata"].get("managedFields", [])
    }


async def applied(api: Api, body: Any, manager: str = "m", *, target: str = TARGET, force: bool = False) -> Any:
    """Return the object after an apply that succeeds."""
    reply = await api.apply(target, body, manager, "force=true" if force else "")
    assert reply.status in (200, 201), reply.body
    return reply.body


async def test_identical_apply_changes_nothing(api: Api, kcr_clock: VirtualClock) -> None:
    before = await applied(api, config_map(a="1"))
    await kcr_clock.advance(60)
    assert await applied(api, config_map(a="1")) == before


async def test_time_moves_with_what_is_written(api: Api, kcr_clock: VirtualClock) -> None:
    before = await applied(api, config_map(a="1"))
    await kcr_clock.advance(60)
    after = await applied(api, config_map(a="2"))
    times = [obj["metadata"]["managedFields"][0]["time"] for obj in (before, after)]
    assert times == ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"]


async def test_what_is_left_out_is_removed(api: Api) -> None:
    await applied(api, config_map({"labels": {"x": "1"}, "finalizers": ["a/b"]}, a="1", b="1"))
    after = await applied(api, config_map(a="1"))
    assert after["data"] == {"a": "1"}
    assert after["metadata"].keys().isdisjoint({"labels", "finalizers"})
    assert owners(after) == {"m": [".data.a"]}


async def test_what_another_manager_owns_stays(api: Api) -> None:
    await applied(api, config_map(a="1", b="1"), "m1")
    shared = await applied(api, config_map(a="1", c="1"), "m2")
    assert owners(shared) == {"m1": [".data.a", ".data.b"], "m2": [".data.a", ".data.c"]}
    after = await applied(api, config_map(), "m1")
    assert after["data"] == {"a": "1", "c": "1"}


async def test_shared_fields_conflict_once_one_owner_changes_them(api: Api) -> None:
    await applied(api, config_map(a="1"), "m1")
    await applied(api, config_map(a="1"), "m2")
    refused = await api.apply(TARGET, config_map(a="2"), "m1")
    assert refused.body["message"] == 'Apply failed with 1 conflict: conflict with "m2": .data.a'


async def test_force_takes_over(api: Api) -> None:
    await applied(api, config_map(a="1", b="1"), "m1")
    after = await applied(api, config_map(a="2"), "m2", force=True)
    assert owners(after) == {"m1": [".data.b"], "m2": [".data.a"]}
    # What the first one has lost, it does not remove.
    assert (await applied(api, config_map(b="1"), "m1"))["data"] == {"a": "2", "b": "1"}


async def test_updates_take_over_what_they_change(api: Api) -> None:
    await applied(api, config_map(a="1", b="1", c="1"))
    await api.patch(f"{TARGET}?fieldManager=upd", {"data": {"a": "2", "b": None, "d": "1"}})
    assert owners(await api.get(TARGET)) == {"m": [".data.c"], "upd*": [".data.a", ".data.d"]}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_updates_are_named_after_the_user_agent(api: Api, method: str) -> None:
    await applied(api, {**HEAD, "metadata": {"name": "a", "labels": {"x": "1"}}})
    form = "application/json" if method == "PUT" else "application/merge-patch+json"
    body = config_map({"labels": {"x": "1"}}, a="1")
    reply = await api.call(method, TARGET, body, content_type=form, user_agent="tool/1.0 (x)")
    assert {name: paths for name, paths in owners(reply.body).items() if name != "m"} == {"tool*": [".data", ".data.a"]}


async def test_status_and_scale_are_owned_by_subresource(api: Api) -> None:
    await applied(api, deployment(replicas=1), "m", target=DEPLOYMENT)
    scale = {"spec": {"replicas": 3}}
    await api.patch(f"{DEPLOYMENT}/scale?fieldManager=hpa", scale)
    await api.patch(f"{DEPLOYMENT}/status?fieldManager=ctl", {"status": {"replicas": 1}})
    obj = await api.get(DEPLOYMENT)
    found = owners(obj)
    assert (found["hpa*scale"], found["ctl*status"]) == ([".spec.replicas"], [".status.replicas"])
    assert ".spec.replicas" not in found["m"]
    refused = await api.apply(DEPLOYMENT, deployment(replicas=1))
    assert refused.body["message"] == (
        'Apply failed with 1 conflict: conflict with "hpa" with subresource "scale" using apps/v1: .spec.replicas'
    )
    assert (await applied(api, deployment(), target=DEPLOYMENT))["spec"]["replicas"] == 3


async def test_status_is_applied_through_its_subresource_only(api: Api) -> None:
    # AS 9.4
    both = {**deployment(replicas=2), "status": {"replicas": 7}}
    main = await applied(api, both, target=DEPLOYMENT)
    assert main["status"] == {}
    assert not any(path.startswith(".status") for path in owners(main)["m"])
    status = await applied(api, {**both, "spec": {"replicas": 9}}, target=f"{DEPLOYMENT}/status")
    assert (status["spec"]["replicas"], status["status"]) == (2, {"replicas": 7})
    assert owners(status)["mstatus"] == [".status.replicas"]
    gone = await applied(api, {**deployment(), "status": {}}, target=f"{DEPLOYMENT}/status")
    assert "replicas" not in gone.get("status", {})


async def test_scale_is_applied(api: Api) -> None:
    await applied(api, deployment(), target=DEPLOYMENT)
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3}}
    assert (await applied(api, scale, "s", target=f"{DEPLOYMENT}/scale"))["spec"] == {"replicas": 3}
    obj = await api.get(DEPLOYMENT)
    assert (obj["spec"]["replicas"], owners(obj)["sscale"]) == (3, [".spec.replicas"])


async def test_defaults_come_back_without_an_owner(api: Api) -> None:
    before = await applied(api, deployment(replicas=3, pod={"dnsPolicy": "Default"}), target=DEPLOYMENT)
    assert ".spec.revisionHistoryLimit" not in owners(before)["m"]
    after = await applied(api, deployment(), target=DEPLOYMENT)
    spec = after["spec"]
    assert (spec["replicas"], spec["template"]["spec"]["dnsPolicy"]) == (1, "ClusterFirst")


async def test_items_merge_by_keys_with_defaults(api: Api) -> None:
    def service(*ports: Any) -> Any:
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": list(ports)}}

    await applied(
        api, service({"port": 80, "name": "tcp"}, {"port": 80, "protocol": "UDP", "name": "udp"}), "m1", target=SERVICE
    )
    after = await applied(api, service({"port": 80, "protocol": "TCP", "name": "tcp"}), "m2", target=SERVICE)
    assert [port["name"] for port in after["spec"]["ports"]] == ["tcp", "udp"]
    gone = await applied(api, service(), "m1", target=SERVICE)
    assert [port["name"] for port in gone["spec"]["ports"]] == ["tcp"]


async def test_lists_without_keys_are_owned_whole(api: Api) -> None:
    def tolerating(key: str) -> Any:
        return deployment(pod={"tolerations": [{"key": key, "operator": "Exists"}]})

    await applied(api, tolerating("a"), "m1", target=DEPLOYMENT)
    refused = await api.apply(DEPLOYMENT, tolerating("b"), "m2")
    path = ".spec.template.spec.tolerations"
    assert refused.body["message"] == f'Apply failed with 1 conflict: conflict with "m1": {path}'


async def test_controllers_keep_what_they_own_while_others_apply(api: Api) -> None:
    # A finalizer or label that a controller adds outlives the applies of those who do not know it.
    await applied(api, config_map({"finalizers": ["a/mine"]}))
    patch = {"metadata": {"finalizers": ["a/mine", "b/theirs"], "labels": {"x": "1"}}}
    await api.patch(f"{TARGET}?fieldManager=ctl", patch)
    after = await applied(api, config_map())
    assert (after["metadata"]["finalizers"], after["metadata"]["labels"]) == (["b/theirs"], {"x": "1"})


async def test_object_never_applied_has_no_managed_fields(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, {**config_map(a="1"), "metadata": {"name": "a", "managedFields": [{}]}})
    await api.patch(TARGET, {"data": {"b": "1"}})
    await api.put(TARGET, config_map(a="2"))
    assert "managedFields" not in made["metadata"]
    assert "managedFields" not in (await api.get(TARGET))["metadata"]


async def test_what_was_there_before_belongs_to_a_manager_of_its_own(api: Api) -> None:
    # AS 11.5
    await api.post(CONFIG_MAPS, config_map({"labels": {"x": "1"}}, a="1"))
    refused = await api.apply(TARGET, config_map(a="2"))
    assert (
        refused.body["message"] == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    )
    after = await applied(api, config_map(a="1"))
    labels = [".metadata.labels", ".metadata.labels.x"]
    assert owners(after) == {"m": [".data.a"], "before-first-apply*": [".data", ".data.a", *labels]}


async def test_status_from_before_belongs_to_its_subresource(api: Api) -> None:
    await api.post(DEPLOYMENT.removesuffix("/a"), deployment())
    await api.patch(f"{DEPLOYMENT}/status", {"status": {"replicas": 1}})
    found = owners(await applied(api, deployment(), target=DEPLOYMENT))
    assert found["before-first-apply*status"] == [".status", ".status.replicas"]
    assert not any(path.startswith(".status") for path in found["before-first-apply*"])


async def test_migration_from_client_side_apply_works_as_kubectl_does_it(api: Api) -> None:
    # AS 11.6
    said = config_map(a="1", b="1")
    annotations = {LAST_APPLIED: fieldpath.quoted(said)}
    await api.post(CONFIG_MAPS, config_map({"annotations": annotations}, a="1", b="1"))
    first = await applied(api, config_map(a="2"), "kubectl")
    assert first["data"] == {"a": "2", "b": "1"}
    assert f".metadata.annotations.{LAST_APPLIED}" in owners(first)["kubectl-client-side-apply*"]
    kept = {"annotations": {LAST_APPLIED: first["metadata"]["annotations"][LAST_APPLIED]}}
    second = await applied(api, {**HEAD, "metadata": {"name": "a", **kept}}, "kubectl-last-applied")
    migrated = [
        {**entry, "manager": "kubectl", "operation": "Apply"}
        for entry in second["metadata"]["managedFields"]
        if entry["manager"] == "kubectl-client-side-apply"
    ]
    others = [entry for entry in second["metadata"]["managedFields"] if entry["manager"] == "kubectl-last-applied"]
    operations = [
        {"op": "replace", "path": "/metadata/managedFields", "value": [*migrated, *others]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": second["metadata"]["resourceVersion"]},
    ]
    await api.patch(TARGET, operations, "json-patch")
    last = await applied(api, config_map(a="2"), "kubectl")
    assert last["data"] == {"a": "2"}
    assert "b" not in last["metadata"]["annotations"][LAST_APPLIED]


async def test_client_side_apply_owns_what_it_said_and_no_more(api: Api) -> None:
    said = config_map(a="1", gone="1")
    text = {LAST_APPLIED: fieldpath.quoted(said)}
    await api.post(CONFIG_MAPS, config_map({"annotations": {**text, "x": "y"}, "finalizers": ["a.io/b"]}, a="2", b="1"))
    found = owners(await applied(api, config_map(a="2"), "kubectl"))
    annotations = [".metadata.annotations", f".metadata.annotations.{LAST_APPLIED}"]
    assert found["kubectl-client-side-apply*"] == [".data", ".data.a", *annotations]
    others = [".metadata.annotations.x", ".metadata.finalizers", '.metadata.finalizers[="a.io/b"]']
    assert found["before-first-apply*"] == [".data.b", *others]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"metadata": 1}', '{"data": 1}', '{"data": {"a": 1}}'])
async def test_unreadable_annotation_gives_client_side_apply_nothing_else(api: Api, text: str) -> None:
    await api.post(CONFIG_MAPS, config_map({"annotations": {LAST_APPLIED: text}}, a="1"))
    found = owners(await applied(api, config_map(a="1"), "kubectl"))
    assert found["before-first-apply*"] == [".data", ".data.a"]
    assert f".metadata.annotations.{LAST_APPLIED}" in found["kubectl-client-side-apply*"]


async def test_client_side_apply_owns_the_defaults_but_not_what_the_server_made(api: Api) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    body = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {"spec": pod}},
    }  # fmt: skip
    text = {LAST_APPLIED: fieldpath.quoted(body)}
    await api.post(jobs, {**body, "metadata": {"name": "a", "annotations": text}})
    found = owners(await applied(api, body, "kubectl", target=f"{jobs}/a"))
    assert ".spec.backoffLimit" in found["kubectl-client-side-apply*"]
    assert '.spec.template.spec.containers[name="c"].imagePullPolicy' in found["kubectl-client-side-apply*"]
    uid = ".metadata.labels.batch.kubernetes.io/controller-uid"
    made = {".spec.selector", uid, f".spec.template{uid}"}
    assert made <= {*found["before-first-apply*"]}
    assert not made & {*found["kubectl-client-side-apply*"]}


async def test_kubectl_does_not_take_over_what_changed_after_its_apply(api: Api) -> None:
    annotations = {LAST_APPLIED: fieldpath.quoted(config_map(a="1"))}
    await api.post(CONFIG_MAPS, config_map({"annotations": annotations}, a="3"))
    assert (await api.apply(TARGET, config_map(a="2"), "kubectl")).status == 409
    assert (await api.apply(TARGET, config_map(a="2"), "kubectl", "force=true")).status == 200


@pytest.mark.parametrize(
    ("form", "patch"),
    [
        pytest.param("merge-patch", {"metadata": {"managedFields": [{}]}}, id="merge-patch"),
        pytest.param("strategic-merge-patch", {"metadata": {"managedFields": [{}]}}, id="strategic"),
        pytest.param("merge-patch", {"metadata": {"managedFields": []}}, id="empty-list"),
        pytest.param(
            "json-patch", [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}], id="json-patch"
        ),
    ],
)
async def test_managed_fields_are_stripped_on_request(api: Api, form: str, patch: Any) -> None:
    before = await applied(api, config_map(a="1"))
    after = await api.patch(TARGET, patch, form)
    assert "managedFields" not in after["metadata"]
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    # No manager owns it from here on, until it is applied again.
    assert (await applied(api, config_map(a="2"), "m2", force=True))["data"] == {"a": "2"}


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"managedFields": None}, id="removed"),
        pytest.param({"managedFields": [{"manager": "x", "operation": "Patch"}]}, id="invalid"),
    ],
)
async def test_managed_fields_survive_clients_that_do_not_know_them(api: Api, patch: Any) -> None:
    before = await applied(api, config_map(a="1"))
    assert await api.patch(TARGET, {"metadata": patch}) == before
    assert owners(await api.put(TARGET, config_map(a="1", b="1")))["m"] == [".data.a"]


async def test_managed_fields_are_not_written_through_a_subresource(api: Api) -> None:
    before = await applied(api, deployment(), target=DEPLOYMENT)
    patch = {"metadata": {"managedFields": [{}]}, "status": {"replicas": 1}}
    after = await api.patch(f"{DEPLOYMENT}/status?fieldManager=ctl", patch)
    assert owners(after)["m"] == owners(before)["m"]


async def test_system_fields_have_no_owner(api: Api) -> None:
    before = await applied(api, config_map(a="1"))
    echoed = {name: value for name, value in before.items() if name != "metadata"}
    metadata = {name: value for name, value in before["metadata"].items() if name != "managedFields"}
    after = await applied(api, {**echoed, "metadata": metadata}, "m2")
    assert owners(after)["m2"] == [".data.a"]


FLOW = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema"}
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"


async def test_metadata_have_no_owner_where_the_status_is_written_alone(api: Api) -> None:
    # AS 9.4
    spec = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 100}
    await applied(api, {**FLOW, "metadata": {"name": "a", "labels": {"x": "1"}}, "spec": spec}, target=f"{FLOWS}/a")
    status = {"conditions": [{"type": "Dangling", "status": "False"}]}
    relabelled = {**FLOW, "metadata": {"name": "a", "labels": {"x": "2"}}, "status": status}
    after = await applied(api, relabelled, "s", target=f"{FLOWS}/a/status")
    assert after["metadata"]["labels"] == {"x": "1"}
    assert {path.split("[")[0] for path in owners(after)["sstatus"]} == {".status.conditions"}


async def test_scale_that_is_no_value_of_its_type_is_refused(api: Api) -> None:
    await applied(api, deployment(), target=DEPLOYMENT)
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": "3"}}
    reply = await api.apply(f"{DEPLOYMENT}/scale", scale)
    assert reply.status == 500
    assert reply.body["message"].startswith("failed to create typed patch object (/a; autoscaling/v1, Kind=Scale)")


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
SERVICES = "/api/v1/namespaces/default/services"


async def test_node_that_is_applied_keeps_its_status_and_nobody_owns_it(api: Api) -> None:
    config = {**NODE, "spec": {"providerID": "p"}, "status": {"volumesInUse": ["v"]}}
    made = await applied(api, config, target="/api/v1/nodes/a")
    assert (made["status"]["volumesInUse"], owners(made)) == (["v"], {"m": [".spec.providerID"]})
    changed = await applied(api, {**config, "status": {"volumesInUse": ["w"]}}, target="/api/v1/nodes/a")
    assert changed["status"]["volumesInUse"] == ["v"]


@pytest.mark.parametrize(
    ("path", "config", "why"),
    [
        ("", {"status": {"loadBalancer": 7}}, ".status.loadBalancer: expected map, got &{7}"),
        ("", {"status": {"foo": 7}}, ".status.foo: field not declared in schema"),
        ("/status", {"spec": {"foo": 7}}, ".spec.foo: field not declared in schema"),
    ],
)
async def test_fields_that_a_path_does_not_write_have_their_types_too(
    api: Api, path: str, config: dict[str, Any], why: str
) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
    # A real server creates a Service that is applied through its status.
    for _ in range(2):
        reply = await api.apply(f"{SERVICES}/a{path}", {**service, **config})
        assert reply.body["message"] == f"failed to create typed patch object (/a; /v1, Kind=Service): {why}"
        await api.call("POST", SERVICES, {**service, "spec": {"ports": [{"port": 80}]}})
    reply = await api.apply(f"{SERVICES}/b/status", {**service, "metadata": {"name": "b"}})
    assert reply.status == 404


async def test_labels_of_a_deployment_are_not_applied_through_its_status(api: Api) -> None:
    await applied(api, deployment(), target=DEPLOYMENT)
    said = {**deployment(), "metadata": {"name": "a", "labels": {"x": "2"}, "annotations": {"y": "1"}}}
    after = await applied(api, {**said, "status": {"replicas": 1}}, "s", target=f"{DEPLOYMENT}/status")
    assert "labels" not in after["metadata"]
    assert owners(after)["sstatus"] == [".metadata.annotations.y", ".status.replicas"]


async def test_metadata_of_a_definition_are_written_through_its_status(api: Api) -> None:
    # Source: customresourcedefinition/strategy.go, statusStrategy: of 1.36.
    await api.post(DEFINITIONS, definition(version("v1", {"type": "object"})))
    target = f"{DEFINITIONS}/widgets.ex.io/status"
    assert (await api.patch(target, {"metadata": {"labels": {"x": "1"}}}))["metadata"]["labels"] == {"x": "1"}


async def test_version_in_an_apply_that_creates_has_to_be_one(api: Api) -> None:
    reply = await api.apply(TARGET, config_map({"name": "a", "resourceVersion": "x"}))
    assert (reply.status, reply.body["message"]) == (500, 'strconv.ParseUint: parsing "x": invalid syntax')
    await applied(api, config_map({"name": "a", "resourceVersion": "7"}))


@pytest.mark.parametrize(
    ("first", "second", "third", "left"),
    [
        ({"finalizers": ["u/f"]}, {"finalizers": ["u/f", "v/f"]}, {"finalizers": ["v/f"]}, []),
        ({"labels": {"u": "1"}}, {"labels": {"u": "1", "v": "1"}}, {"labels": {"v": "1"}}, [".metadata.labels"]),
    ],
)
async def test_list_whose_last_item_goes_has_no_owner_unlike_a_map(
    api: Api, first: Any, second: Any, third: Any, left: list[str]
) -> None:
    await applied(api, config_map({"name": "a", **first}))
    # What is there belongs to the update that was before the next apply.
    await api.patch(TARGET, {"metadata": {"managedFields": [{}]}})
    await applied(api, config_map({"name": "a", **second}))
    await api.put(TARGET, config_map({"name": "a", **third}))
    assert owners(await applied(api, config_map({"name": "a"}))).get("before-first-apply*", []) == left


async def test_emptied_map_is_owned_by_those_who_made_it(api: Api) -> None:
    await applied(api, config_map(u="1"))
    await api.patch(TARGET, {"metadata": {"managedFields": [{}]}})
    await applied(api, config_map(u="1", v="1"))
    await api.put(TARGET, config_map(v="1"))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"l": "1"}}}
    assert owners(await applied(api, body)) == {"m": [".metadata.labels.l"], "before-first-apply*": [".data"]}


async def test_pod_with_a_negative_grace_period_is_applied_twice(api: Api) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": -1}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    for _ in range(2):
        made = await applied(api, body, target="/api/v1/namespaces/default/pods/a")
        assert made["spec"]["terminationGracePeriodSeconds"] == 1


async def test_opaque_value_has_one_owner(api: Api) -> None:
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"}, "revision": 1}
    target = "/apis/apps/v1/namespaces/default/controllerrevisions/a"
    made = await applied(api, {**revision, "data": {"a": {"b": 1}}}, target=target)
    assert owners(made) == {"m": [".data", ".revision"]}


async def test_empty_list_that_another_manager_applied_conflicts(api: Api) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "imagePullSecrets": []}
    target = "/api/v1/namespaces/default/serviceaccounts/a"
    await applied(api, account, target=target)
    reply = await api.apply(target, account, "other")
    assert reply.body["message"] == 'Apply failed with 1 conflict: conflict with "m": .imagePullSecrets'
