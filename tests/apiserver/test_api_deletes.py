"""DELETE: grace, finalizers, propagation.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, config_map, exists, job, owner, pod, pod_binding

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.collects]
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
TRACKING = "batch.kubernetes.io/job-tracking"


async def bound(api: Api, name: str, **metadata: Any) -> None:
    await api.post(PODS, pod(name, **metadata))
    await api.post(f"{PODS}/{name}/binding", pod_binding(name))


async def test_delete_answers_with_a_status(api: Api) -> None:
    created = await api.post(JOBS, job("x"))
    assert await api.delete(f"{JOBS}/x", {"propagationPolicy": "Background"}) == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "x", "group": "batch", "kind": "jobs", "uid": created["metadata"]["uid"]},
    }  # fmt: skip
    assert not await exists(api, f"{JOBS}/x")


async def test_finalizer_holds_until_it_is_gone(api: Api) -> None:
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["a.io/b"]}, "data": {"a": "1"}})
    events = await api.watch(f"{CONFIG_MAPS}?")
    marked = await api.delete(f"{CONFIG_MAPS}/a")
    assert marked["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert await api.delete(f"{CONFIG_MAPS}/a") == marked
    final = await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}, "data": {"a": "2"}})
    assert final["data"] == {"a": "2"}
    assert await events.take(2) == [("ADDED", "a"), ("MODIFIED", "a")]
    last = await events.next()
    assert (last["type"], last["object"]["data"]) == ("DELETED", {"a": "1"})
    assert last["object"]["metadata"]["finalizers"] == ["a.io/b"]
    assert int(last["object"]["metadata"]["resourceVersion"]) > int(marked["metadata"]["resourceVersion"])
    assert not await exists(api, f"{CONFIG_MAPS}/a")
    await events.close()


async def test_terminating_object_takes_no_new_finalizers(api: Api) -> None:
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["a.io/b"]}})
    await api.delete(f"{CONFIG_MAPS}/a")
    patch = {"metadata": {"finalizers": ["a.io/b", "a.io/c"]}}
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/a", patch, content_type="application/merge-patch+json")
    assert (reply.status, reply.body["details"]["causes"][0]["message"]) == (
        422,
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
        '[]string{"a.io/c"}',
    )


async def test_generation_grows_once_on_marking(api: Api) -> None:
    await api.post(JOBS, job("x", finalizers=["a.io/b"]))
    for _ in range(2):
        marked = await api.delete(f"{JOBS}/x", {"propagationPolicy": "Background"})
    assert marked["metadata"]["generation"] == 2


async def test_bound_pod_gets_its_grace(api: Api, kcr_clock: Any) -> None:
    await bound(api, "a")
    marked = await api.delete(f"{PODS}/a")
    assert marked["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    await kcr_clock.advance(5)
    assert await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 60}) == marked
    shorter = await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 10})
    assert shorter["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:10Z"
    gone = await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
    assert not await exists(api, f"{PODS}/a")


async def test_unbound_or_ended_pod_needs_no_grace(api: Api) -> None:
    await api.post(PODS, pod("unbound"))
    await bound(api, "ended")
    await api.patch(f"{PODS}/ended/status", {"status": {"phase": "Succeeded"}})
    for name in ("unbound", "ended"):
        answer = await api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 5})
        assert (answer["kind"], answer["metadata"]["deletionGracePeriodSeconds"]) == ("Pod", 0)
        assert not await exists(api, f"{PODS}/{name}")


async def test_tracking_finalizer_outlives_the_grace(api: Api) -> None:
    await bound(api, "a", finalizers=[TRACKING])
    await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert (await api.get(f"{PODS}/a"))["metadata"]["deletionGracePeriodSeconds"] == 0
    await api.patch(f"{PODS}/a", {"metadata": {"finalizers": [], "$deleteFromPrimitiveList/finalizers": [TRACKING]}},
                    "strategic-merge-patch")  # fmt: skip
    assert not await exists(api, f"{PODS}/a")


async def test_pending_grace_holds_without_finalizers(api: Api) -> None:
    await bound(api, "a", finalizers=[TRACKING])
    await api.delete(f"{PODS}/a")
    await api.patch(f"{PODS}/a", {"metadata": {"finalizers": None}})
    assert await exists(api, f"{PODS}/a")


async def test_preconditions_name_the_kind(api: Api) -> None:
    created = await api.post(PODS, pod("pa"))
    uid = created["metadata"]["uid"]
    reply = await api.call("DELETE", f"{PODS}/pa", {"preconditions": {"uid": "zzz"}})
    assert (reply.status, reply.body["details"]["kind"]) == (409, "Pod")
    assert reply.body["message"] == (
        f'Operation cannot be fulfilled on Pod "pa": the UID in the precondition (zzz) does not match the UID in '
        f"record ({uid}). The object might have been deleted and then recreated"
    )
    await api.delete(f"{PODS}/pa", {"preconditions": {"uid": uid}})


async def test_body_silences_the_query(api: Api) -> None:
    await bound(api, "a")
    marked = await api.delete(f"{PODS}/a?gracePeriodSeconds=0", {})
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    await api.delete(f"{PODS}/a?gracePeriodSeconds=0")
    assert not await exists(api, f"{PODS}/a")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        pytest.param({"propagationPolicy": "Foo"}, "propagationPolicy", id="unknown-policy"),
        pytest.param({"propagationPolicy": "Orphan", "orphanDependents": True}, "propagationPolicy", id="both"),
        pytest.param({"dryRun": ["Some"]}, "dryRun", id="dry-run"),
    ],
)
async def test_options_without_sense_are_invalid(api: Api, options: Any, field: str) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    reply = await api.call("DELETE", f"{CONFIG_MAPS}/a", options)
    assert (reply.status, reply.body["details"]["causes"][0]["field"]) == (422, field)
    assert reply.body["message"].startswith('DeleteOptions.meta.k8s.io "" is invalid: ')


async def test_job_without_policy_orphans_with_a_warning(api: Api, kcr_clock: Any) -> None:
    created = await api.post(JOBS, job("x"))
    await api.post(PODS, pod("p", ownerReferences=[owner(created, controller=True)]))
    reply = await api.call("DELETE", f"{JOBS}/x")
    assert reply.headers["Warning"].startswith('299 - "child pods are preserved by default when jobs are deleted; ')
    assert reply.body["metadata"]["finalizers"] == ["orphan"]
    await kcr_clock.settle()
    assert not await exists(api, f"{JOBS}/x")
    assert "ownerReferences" not in (await api.get(f"{PODS}/p"))["metadata"]


async def test_replication_controller_without_policy_orphans(api: Api) -> None:
    controllers = "/api/v1/namespaces/default/replicationcontrollers"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    await api.post(controllers, {"metadata": {"name": "x"}, "spec": {"template": template}})
    reply = await api.call("DELETE", f"{controllers}/x")
    assert reply.body["metadata"]["finalizers"] == ["orphan"]
    assert "Warning" not in reply.headers


@pytest.mark.parametrize(
    ("collection", "given"),
    [
        ("/apis/storage.k8s.io/v1/storageclasses", {"provisioner": "ex.io/x"}),
        ("/api/v1/namespaces/default/podtemplates", {"template": {"spec": job("x")["spec"]["template"]["spec"]}}),
        ("/apis/resource.k8s.io/v1/deviceclasses", {"spec": {}}),
    ],
)
async def test_some_kinds_answer_with_what_was_deleted(api: Api, collection: str, given: dict[str, Any]) -> None:
    await api.post(collection, {"metadata": {"name": "x"}, **given})
    reply = await api.call("DELETE", f"{collection}/x")
    assert (reply.status, reply.body["metadata"]["name"]) == (200, "x")
    assert (await api.call("GET", f"{collection}/x")).status == 404


async def test_background_collects_after_the_owner(api: Api, kcr_clock: Any) -> None:
    created = await api.post(JOBS, job("x"))
    await api.post(PODS, pod("p", ownerReferences=[owner(created, controller=True)]))
    reply = await api.call("DELETE", f"{JOBS}/x", {"propagationPolicy": "Background"})
    assert "Warning" not in reply.headers
    await kcr_clock.settle()
    assert not await exists(api, f"{PODS}/p")


async def test_foreground_waits_for_blocking_dependents(api: Api, kcr_clock: Any) -> None:
    created = await api.post(JOBS, job("x"))
    about = owner(created, controller=True, blockOwnerDeletion=True)
    await api.post(PODS, pod("p", ownerReferences=[about], finalizers=[TRACKING]))
    await api.post(PODS, pod("q", ownerReferences=[{**about, "blockOwnerDeletion": False}], finalizers=[TRACKING]))
    marked = await api.delete(f"{JOBS}/x", {"propagationPolicy": "Foreground"})
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    await kcr_clock.settle()
    for name in "pq":
        assert "deletionTimestamp" in (await api.get(f"{PODS}/{name}"))["metadata"]
    assert await exists(api, f"{JOBS}/x")
    await api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    await kcr_clock.settle()
    assert not await exists(api, f"{JOBS}/x")


async def test_second_delete_changes_the_policy(api: Api, kcr_clock: Any) -> None:
    created = await api.post(JOBS, job("x", finalizers=["a.io/b"]))
    await api.post(PODS, pod("p", ownerReferences=[owner(created, blockOwnerDeletion=True)], finalizers=[TRACKING]))
    await api.delete(f"{JOBS}/x", {"propagationPolicy": "Foreground"})
    marked = await api.delete(f"{JOBS}/x", {"propagationPolicy": "Background"})
    assert marked["metadata"]["finalizers"] == ["a.io/b"]


async def test_dependent_of_a_missing_owner_is_collected(api: Api, kcr_clock: Any) -> None:
    ghost = {"apiVersion": "batch/v1", "kind": "Job", "name": "ghost", "uid": "no-such"}
    await api.post(PODS, pod("p", ownerReferences=[ghost]))
    await kcr_clock.settle()
    assert not await exists(api, f"{PODS}/p")


async def test_one_living_owner_is_enough(api: Api, kcr_clock: Any) -> None:
    living = owner(await api.post(CONFIG_MAPS, config_map("a")))
    await api.post(PODS, pod("p", ownerReferences=[{**living, "name": "b", "uid": "gone"}, living]))
    await kcr_clock.settle()
    assert (await api.get(f"{PODS}/p"))["metadata"]["ownerReferences"] == [living]


async def test_owner_of_the_same_name_is_another(api: Api, kcr_clock: Any) -> None:
    old = owner(await api.post(CONFIG_MAPS, config_map("a")))
    await api.post(PODS, pod("p", ownerReferences=[old]))
    await api.delete(f"{CONFIG_MAPS}/a")
    await api.post(CONFIG_MAPS, config_map("a"))
    await kcr_clock.settle()
    assert not await exists(api, f"{PODS}/p")


async def test_owner_of_an_unknown_kind_is_left_alone(api: Api, kcr_clock: Any) -> None:
    about = {"apiVersion": "ex.io/v1", "kind": "Widget", "name": "w", "uid": "u"}
    await api.post(PODS, pod("p", ownerReferences=[about]))
    await kcr_clock.settle()
    assert await exists(api, f"{PODS}/p")


async def test_owners_in_a_circle_go_together(api: Api, kcr_clock: Any) -> None:
    first = await api.post(CONFIG_MAPS, config_map("a"))
    second = config_map("b")
    second["metadata"]["ownerReferences"] = [owner(first, blockOwnerDeletion=True)]
    made = await api.post(CONFIG_MAPS, second)
    await api.patch(
        f"{CONFIG_MAPS}/a", {"metadata": {"ownerReferences": [owner(made, blockOwnerDeletion=True), owner(first)]}}
    )
    await kcr_clock.settle()
    assert len((await api.get(CONFIG_MAPS))["items"]) == 2
    await api.delete(f"{CONFIG_MAPS}/a", {"propagationPolicy": "Foreground"})
    await kcr_clock.settle()
    assert (await api.get(CONFIG_MAPS))["items"] == []


@pytest.mark.parametrize("count", [3, 4])
async def test_longer_circle_of_owners_goes_together(api: Api, kcr_clock: Any, count: int) -> None:
    """Source: test/e2e/apimachinery/garbage_collector.go, should not be blocked by dependency circle."""
    made = [await api.post(CONFIG_MAPS, config_map(f"c{place}")) for place in range(count)]
    for place, above in enumerate(made):
        references = [owner(above, blockOwnerDeletion=True, controller=True)]
        await api.patch(f"{CONFIG_MAPS}/c{(place + 1) % count}", {"metadata": {"ownerReferences": references}})
    await kcr_clock.settle()
    assert len((await api.get(CONFIG_MAPS))["items"]) == count
    await api.delete(f"{CONFIG_MAPS}/c0", {"propagationPolicy": "Foreground"})
    await kcr_clock.settle()
    assert (await api.get(CONFIG_MAPS))["items"] == []


async def test_dependent_outside_the_circle_is_waited_for(api: Api, kcr_clock: Any) -> None:
    first = await api.post(CONFIG_MAPS, config_map("a"))
    second = await api.post(CONFIG_MAPS, config_map("b") | {
        "metadata": {"name": "b", "ownerReferences": [owner(first, blockOwnerDeletion=True)]}
    })  # fmt: skip
    await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"ownerReferences": [owner(second, blockOwnerDeletion=True)]}})
    await api.post(PODS, pod("p", ownerReferences=[owner(first, blockOwnerDeletion=True)], finalizers=[TRACKING]))
    await api.delete(f"{CONFIG_MAPS}/a", {"propagationPolicy": "Foreground"})
    await kcr_clock.settle()
    assert [one["metadata"]["name"] for one in (await api.get(CONFIG_MAPS))["items"]] == ["a", "b"]
    await api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    await kcr_clock.settle()
    assert (await api.get(CONFIG_MAPS))["items"] == []


async def test_chain_of_owners_is_collected_whole(api: Api, kcr_clock: Any) -> None:
    above = await api.post(CONFIG_MAPS, config_map("c0"))
    for place in range(1, 5):
        below = config_map(f"c{place}")
        below["metadata"]["ownerReferences"] = [owner(above)]
        above = await api.post(CONFIG_MAPS, below)
    await api.delete(f"{CONFIG_MAPS}/c0")
    await kcr_clock.settle()
    assert (await api.get(CONFIG_MAPS))["items"] == []


async def test_collection_is_deleted_by_selector(api: Api) -> None:
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.post(CONFIG_MAPS, config_map(name, app=app))
    removed = await api.delete(f"{CONFIG_MAPS}?labelSelector=app%3Dx")
    assert removed["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in removed["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in (await api.get(CONFIG_MAPS))["items"]] == ["b"]


async def test_namespace_is_emptied_then_goes(api: Api, kcr_clock: Any) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "nsx"}})
    held = pod("held", finalizers=[TRACKING])
    await api.post("/api/v1/namespaces/nsx/pods", held)
    await api.post("/api/v1/namespaces/nsx/configmaps", config_map("a"))
    answer = await api.delete("/api/v1/namespaces/nsx")
    assert (answer["kind"], answer["status"]["phase"]) == ("Namespace", "Terminating")
    assert "deletionGracePeriodSeconds" not in answer["metadata"]
    await kcr_clock.settle()
    conditions = {
        one["type"]: (one["status"], one["reason"])
        for one in (await api.get("/api/v1/namespaces/nsx"))["status"]["conditions"]
    }
    assert conditions["NamespaceFinalizersRemaining"] == ("True", "SomeFinalizersRemain")
    assert conditions["NamespaceDeletionContentFailure"] == ("False", "ContentDeleted")
    await api.patch("/api/v1/namespaces/nsx/pods/held", {"metadata": {"finalizers": None}})
    await kcr_clock.settle()
    assert not await exists(api, "/api/v1/namespaces/nsx")


async def test_pods_of_a_namespace_are_deleted_first(api: Api, kcr_clock: Any) -> None:
    """Source: test/e2e/apimachinery/namespace.go, namespace deletion should delete pod first."""
    await api.post("/api/v1/namespaces", {"metadata": {"name": "nsx"}})
    await api.post("/api/v1/namespaces/nsx/pods", pod("held", finalizers=["e2e.io/held"]))
    await api.post("/api/v1/namespaces/nsx/configmaps", config_map("a"))
    await api.delete("/api/v1/namespaces/nsx")
    await kcr_clock.advance(60)
    assert "deletionTimestamp" in (await api.get("/api/v1/namespaces/nsx/pods/held"))["metadata"]
    assert "deletionTimestamp" not in (await api.get("/api/v1/namespaces/nsx/configmaps/a"))["metadata"]
    conditions = (await api.get("/api/v1/namespaces/nsx"))["status"]["conditions"]
    remaining = next(one["message"] for one in conditions if one["type"] == "NamespaceContentRemaining")
    assert remaining == "Some resources are remaining: pods. has 1 resource instances"
    await api.patch("/api/v1/namespaces/nsx/pods/held", {"metadata": {"finalizers": None}})
    await kcr_clock.settle()
    assert not await exists(api, "/api/v1/namespaces/nsx")


async def test_finalizers_of_others_keep_an_empty_namespace(api: Api, kcr_clock: Any) -> None:
    made = {
        "metadata": {"name": "nsx", "labels": {"a": "b"}, "finalizers": ["ex.io/a"]},
        "spec": {"finalizers": ["ex.io/b"]},
    }
    await api.post("/api/v1/namespaces", made)
    await api.delete("/api/v1/namespaces/nsx")
    await kcr_clock.settle()
    found = await api.get("/api/v1/namespaces/nsx")
    assert (found["metadata"]["labels"]["a"], found["metadata"]["finalizers"]) == ("b", ["ex.io/a"])
    assert found["spec"] == {"finalizers": ["ex.io/b"]}


async def test_terminating_namespace_takes_nothing_new(api: Api, kcr_clock: Any) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "nsx"}})
    await api.post("/api/v1/namespaces/nsx/pods", pod("held", finalizers=[TRACKING]))
    await api.delete("/api/v1/namespaces/nsx")
    reply = await api.call("POST", "/api/v1/namespaces/nsx/configmaps", config_map("q"))
    assert (reply.status, reply.body["message"]) == (
        403,
        'configmaps "q" is forbidden: unable to create new content in namespace nsx because it is being terminated',
    )
    assert reply.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace nsx is being terminated",
            "field": "metadata.namespace",
        }
    ]


async def test_namespace_default_stays(api: Api) -> None:
    reply = await api.call("DELETE", "/api/v1/namespaces/default")
    assert (reply.status, reply.body["message"]) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )


async def test_options_of_a_foreign_kind_are_refused(api: Api) -> None:
    """Source: k8s.io/apiserver/pkg/endpoints/handlers/delete.go. The name of the scheme is not compared."""
    await api.post(CONFIG_MAPS, config_map("a"))
    reply = await api.call("DELETE", f"{CONFIG_MAPS}/a", {"kind": "ConfigMap", "apiVersion": "v1"})
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")
    assert reply.body["message"].startswith('no kind "ConfigMap" is registered for version "v1" in scheme ')
    for version in ("v1", "meta.k8s.io/v1", "policy/v1"):
        options = {"kind": "DeleteOptions", "apiVersion": version, "dryRun": ["All"]}
        assert (await api.call("DELETE", f"{CONFIG_MAPS}/a", options)).status == 200


async def test_namespace_that_is_empty_is_the_answer_to_its_deletion(api: Api) -> None:
    made = await api.post("/api/v1/namespaces", {"metadata": {"name": "x"}})
    made["spec"] = {"finalizers": []}
    await api.put("/api/v1/namespaces/x/finalize", made)
    gone = await api.delete("/api/v1/namespaces/x")
    assert (gone["kind"], gone["metadata"]["name"]) == ("Namespace", "x")
    assert not await exists(api, "/api/v1/namespaces/x")


async def test_dry_run_of_a_deletion_marks_nothing(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["a.io/b"]}})
    shown = await api.delete(f"{CONFIG_MAPS}/a?dryRun=All")
    assert "deletionTimestamp" in shown["metadata"]
    assert await api.get(f"{CONFIG_MAPS}/a") == made
