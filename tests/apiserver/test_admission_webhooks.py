"""Admission webhooks: what they are asked, and what their answers do to the request.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go;
kubernetes/test/integration/apiserver/admissionwebhook/admission_test.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, pod
from tests.kit.webhooks import CONFIGURATIONS, Webhooks, denied, json_patch

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
LABEL = json_patch({"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}})


def rule(resource: str, *operations: str, group: str = "", version: str = "*") -> dict[str, Any]:
    return {
        "operations": operations or ["*"], "apiGroups": [group], "apiVersions": [version], "resources": [resource],
    }  # fmt: skip


async def test_mutating_webhook_changes_what_is_stored(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Mutating", "labels", lambda request: LABEL)
    made = await api.post(PODS, pod("pa"))
    assert made["metadata"]["labels"] == {"seen": "yes"}
    assert (await api.get(f"{PODS}/pa"))["metadata"]["labels"] == {"seen": "yes"}


async def test_review_request_has_all_fields(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Mutating", "mutate")
    await webhooks.add("Validating", "validate")
    made = (await api.as_user("ann", "dev").call("POST", f"{PODS}?fieldManager=me", pod("pa"))).body
    (mutating,), (validating,) = webhooks.requests["mutate"], webhooks.requests["validate"]
    assert {name: value for name, value in mutating.items() if name not in ("uid", "object")} == {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "pa",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "ann", "groups": ["dev", "system:authenticated"]},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"},
    }
    assert mutating["uid"] != validating["uid"]
    # Uid and time are set between the phases.
    assert {"uid", "creationTimestamp"}.isdisjoint(mutating["object"]["metadata"])
    shown, stored = validating["object"]["metadata"], made["metadata"]
    assert (shown["uid"], shown["creationTimestamp"]) == (stored["uid"], stored["creationTimestamp"])
    assert webhooks.paths == ["/review?timeout=10s"] * 2


async def test_generated_name_is_drawn_once(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Mutating", "mutate", lambda request: LABEL)
    await webhooks.add("Validating", "validate")
    body = pod("")
    body["metadata"] = {"generateName": "pa-"}
    made = await api.post(PODS, body)
    (mutating,), (validating,) = webhooks.requests["mutate"], webhooks.requests["validate"]
    assert "name" not in mutating
    assert "name" not in mutating["object"]["metadata"]
    assert validating["object"]["metadata"]["name"] == made["metadata"]["name"]
    assert validating["object"]["metadata"]["uid"] == made["metadata"]["uid"]


@pytest.mark.parametrize(
    ("status", "code", "message", "reason"),
    [
        pytest.param(None, 400, "without explanation", None, id="nothing"),
        pytest.param({"message": "no"}, 400, ": no", None, id="message"),
        pytest.param({"reason": "Because"}, 400, ": Because", "Because", id="reason"),
        pytest.param({"message": "no", "code": 403, "reason": "Forbidden"}, 403, ": no", "Forbidden", id="code"),
        pytest.param({"message": "no", "code": 200}, 400, ": no", None, id="success"),
    ],
)
async def test_denial_has_the_code_of_the_webhook(
    api: Api, webhooks: Webhooks, status: Any, code: int, message: str, reason: str | None
) -> None:
    await webhooks.add("Validating", "strict", lambda request: {"allowed": False, "status": status})
    reply = await api.call("POST", PODS, pod("pa"))
    separator = "" if message.startswith(":") else " "
    expected = f'admission webhook "strict.example.com" denied the request{separator}{message}'
    assert (reply.status, reply.body["message"], reply.body.get("reason")) == (code, expected, reason)
    assert (await api.call("GET", f"{PODS}/pa")).status == 404


async def test_update_and_patch_have_both_objects(api: Api, webhooks: Webhooks) -> None:
    await api.post(MAPS, {"metadata": {"name": "ma"}, "data": {"a": "1"}})
    await webhooks.add("Validating", "validate", rules=[rule("configmaps")])
    await api.patch(f"{MAPS}/ma", {"data": {"a": "2"}})
    (request,) = webhooks.requests["validate"]
    assert (request["operation"], request["options"]["kind"]) == ("UPDATE", "UpdateOptions")
    assert (request["oldObject"]["data"], request["object"]["data"]) == ({"a": "1"}, {"a": "2"})


async def test_delete_has_the_old_object_only(api: Api, webhooks: Webhooks) -> None:
    await api.post(MAPS, {"metadata": {"name": "ma"}})
    await webhooks.add("Validating", "validate", lambda request: denied("kept"), rules=[rule("configmaps", "DELETE")])
    reply = await api.call("DELETE", f"{MAPS}/ma", {"propagationPolicy": "Background"})
    assert (reply.status, reply.body["message"]) == (
        400, 'admission webhook "validate.example.com" denied the request: kept',
    )  # fmt: skip
    (request,) = webhooks.requests["validate"]
    assert (request["operation"], request["object"], request["name"]) == ("DELETE", None, "ma")
    assert request["oldObject"]["metadata"]["name"] == "ma"
    assert request["options"] == {
        "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background",
    }  # fmt: skip
    await api.get(f"{MAPS}/ma")


async def test_deletecollection_reviews_each_object_once(api: Api, webhooks: Webhooks) -> None:
    for name in ("ma", "mb", "mc"):
        await api.post(MAPS, {"metadata": {"name": name}})

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        return denied("kept") if request["oldObject"]["metadata"]["name"] == "mb" else {}

    await webhooks.add("Validating", "validate", answer, rules=[rule("configmaps", "DELETE")])
    assert (await api.call("DELETE", MAPS)).status == 400
    requests = webhooks.requests["validate"]
    assert [request["oldObject"]["metadata"]["name"] for request in requests] == ["ma", "mb"]
    # The request names none of them.
    assert all("name" not in request for request in requests)
    assert [one["metadata"]["name"] for one in (await api.get(MAPS))["items"]] == ["mb", "mc"]


async def test_object_changed_during_the_review_is_reviewed_again(api: Api, webhooks: Webhooks) -> None:
    await api.post(MAPS, {"metadata": {"name": "ma"}, "data": {"a": "1"}})
    rivals = iter([{"data": {"b": "1"}}, {"data": {"c": "1"}}])

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["userInfo"]["username"] == "ann" and (rival := next(rivals, None)):
            await api.patch(f"{MAPS}/ma", rival)
        return {}

    await webhooks.add("Validating", "validate", answer, rules=[rule("configmaps")])
    reply = await api.as_user("ann").call(
        "PATCH", f"{MAPS}/ma", {"data": {"a": "2"}}, content_type="application/merge-patch+json"
    )
    assert reply.status == 200
    assert (await api.get(f"{MAPS}/ma"))["data"] == {"a": "2", "b": "1", "c": "1"}
    shown = [one["object"]["data"] for one in webhooks.requests["validate"] if one["userInfo"]["username"] == "ann"]
    assert shown == [{"a": "2"}, {"a": "2", "b": "1"}, {"a": "2", "b": "1", "c": "1"}]


async def test_update_of_an_old_version_is_a_conflict_after_the_review(api: Api, webhooks: Webhooks) -> None:
    old = await api.post(MAPS, {"metadata": {"name": "ma"}, "data": {"a": "1"}})

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["userInfo"]["username"] == "ann":
            await api.patch(f"{MAPS}/ma", {"data": {"b": "1"}})
        return {}

    await webhooks.add("Validating", "validate", answer, rules=[rule("configmaps")])
    reply = await api.as_user("ann").call("PUT", f"{MAPS}/ma", {**old, "data": {"a": "2"}})
    assert reply.status == 409
    assert (await api.get(f"{MAPS}/ma"))["data"] == {"a": "1", "b": "1"}


async def test_name_taken_during_the_review_is_a_conflict(api: Api, webhooks: Webhooks) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["userInfo"]["username"] == "ann":
            await api.post(MAPS, {"metadata": {"name": "ma"}, "data": {"of": "rival"}})
        return {}

    await webhooks.add("Validating", "validate", answer, rules=[rule("configmaps")])
    reply = await api.as_user("ann").call("POST", MAPS, {"metadata": {"name": "ma"}})
    assert (reply.status, reply.body["reason"]) == (409, "AlreadyExists")
    assert (await api.get(f"{MAPS}/ma"))["data"] == {"of": "rival"}


async def test_deleted_object_is_not_updated_after_the_review(api: Api, webhooks: Webhooks) -> None:
    await api.post(MAPS, {"metadata": {"name": "ma"}})

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["operation"] == "UPDATE":
            await api.delete(f"{MAPS}/ma")
        return {}

    await webhooks.add("Validating", "validate", answer, rules=[rule("configmaps", "UPDATE")])
    reply = await api.call("PATCH", f"{MAPS}/ma", {"data": {"a": "2"}}, content_type="application/merge-patch+json")
    assert reply.status == 404


async def test_dry_run_needs_a_webhook_without_effects(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Validating", "quiet", sideEffects="NoneOnDryRun")
    assert (await api.call("POST", f"{PODS}?dryRun=All", pod("pa"))).status == 201
    (request,) = webhooks.requests["quiet"]
    assert (request["dryRun"], request["options"]["dryRun"]) == (True, ["All"])


async def test_configurations_of_admission_are_not_reviewed(api: Api, webhooks: Webhooks) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    await webhooks.add("Validating", "all", lambda request: denied("never"), rules=[everything])
    assert (await api.call("POST", MAPS, {"metadata": {"name": "ma"}})).status == 400
    await api.delete(f"{CONFIGURATIONS['Validating']}/all")
    await api.post(MAPS, {"metadata": {"name": "ma"}})


async def test_writes_of_the_server_itself_are_not_reviewed(api: Api, webhooks: Webhooks) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    await webhooks.add("Validating", "all", lambda request: denied("never"), rules=[everything])
    api.server.registry.create_priority_classes()
    assert webhooks.requests["all"] == []
