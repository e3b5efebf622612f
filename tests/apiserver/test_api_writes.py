"""POST, PUT, PATCH: metadata, versions, the split of status.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/registry.
"""

import random
import re
from typing import Any

import pytest

from kcr_devcluster.apiserver import APIServer, Storage
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.storage.records import Record
from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import Api, config_map, job, owner, pod

pytestmark = pytest.mark.kcr_virtual
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LONG_AGO = "2001-01-01T00:00:00Z"


async def test_create_sets_what_only_the_server_may(api: Api) -> None:
    given = job("x", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7, selfLink="/x")
    reply = await api.call("POST", JOBS, given)
    metadata = reply.body["metadata"]
    assert reply.status == 201
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", metadata["uid"])
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert (metadata["generation"], metadata["namespace"]) == (1, "default")
    assert "selfLink" not in metadata
    assert reply.body["status"] == {}


async def test_version_on_create_is_a_server_error(api: Api) -> None:
    reply = await api.call("POST", CONFIG_MAPS, {"metadata": {"name": "a", "resourceVersion": "4"}})
    assert (reply.status, reply.body["message"]) == (500, "resourceVersion should not be set on objects to be created")


async def test_generated_names_use_the_safe_alphabet(api: Api) -> None:
    base = "n" * 70 + "-"
    made = [(await api.post(CONFIG_MAPS, {"metadata": {"generateName": base}}))["metadata"]["name"] for _ in range(2)]
    assert made[0] != made[1]
    assert all(re.fullmatch("n{58}[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in made)


async def test_second_create_finds_the_name_taken(api: Api) -> None:
    await api.post(JOBS, job("x", finalizers=["a.io/b"]))
    reply = await api.call("POST", JOBS, job("x"))
    assert (reply.status, reply.body["reason"]) == (409, "AlreadyExists")
    assert reply.body["message"] == 'jobs.batch "x" already exists'
    await api.delete(f"{JOBS}/x")
    reply = await api.call("POST", JOBS, job("x"))
    assert reply.body["message"] == 'object is being deleted: jobs.batch "x" already exists'


async def test_create_needs_a_namespace_that_exists(api: Api) -> None:
    reply = await api.call("POST", "/api/v1/namespaces/nons/configmaps", config_map("a"))
    assert (reply.status, reply.body["message"]) == (404, 'namespaces "nons" not found')
    assert reply.body["details"]["kind"] == "namespaces"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"{", "the object provided is unrecognized (must be of type ConfigMap)", id="no-json"),
        pytest.param(b"[]", "the object provided is unrecognized (must be of type ConfigMap)", id="no-object"),
        pytest.param({"kind": "Secret"}, 'Secret in version "v1" cannot be handled as a ConfigMap', id="kind"),
        pytest.param({"apiVersion": "v2"}, 'no kind "ConfigMap" is registered for version "v2"', id="version"),
        pytest.param({"metadata": {"name": 5}}, 'ConfigMap in version "v1" cannot be handled', id="wrong-type"),
        pytest.param({"metadata": "x"}, 'ConfigMap in version "v1" cannot be handled', id="metadata-no-object"),
        pytest.param(
            {"metadata": {"name": "a", "namespace": "other"}},
            "the namespace of the provided object does not match the namespace sent on the request", id="namespace",
        ),
    ],
)  # fmt: skip
async def test_body_that_makes_no_sense_is_bad(api: Api, body: object, message: str) -> None:
    reply = await api.call("POST", CONFIG_MAPS, body)
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")
    assert message in reply.body["message"]


async def test_yaml_is_read_and_other_forms_are_not(api: Api) -> None:
    text = b"metadata: {name: a}\ndata: {when: 2026-01-01T00:00:00Z}\n"
    reply = await api.call("POST", CONFIG_MAPS, text, content_type="application/yaml")
    assert reply.body["data"] == {"when": "2026-01-01T00:00:00Z"}
    reply = await api.call("POST", CONFIG_MAPS, text, content_type="text/plain")
    assert (reply.status, reply.body["reason"]) == (415, "UnsupportedMediaType")


async def test_yaml_becomes_what_json_would_be(api: Api) -> None:
    text = b"metadata: {name: a, labels: {2: x, true: 'y'}}\ndata: {a: 'yes', 2026-01-01: b}\nimmutable: off\n"
    body = (await api.call("POST", CONFIG_MAPS, text, content_type="application/yaml")).body
    assert body["metadata"]["labels"] == {"2": "x", "true": "y"}
    assert (body["data"], body["immutable"]) == ({"a": "yes", "2026-01-01": "b"}, False)
    for odd in (b"{a: .nan}", b"{a: !!binary Y}", b"? [a]\n: b", b"a: [", b"{~: 1}"):
        reply = await api.call("POST", CONFIG_MAPS, odd, content_type="application/yaml")
        assert (reply.status, reply.body["reason"]) == (400, "BadRequest")


async def test_body_above_three_megabytes_is_too_large(api: Api) -> None:
    reply = await api.call("POST", CONFIG_MAPS, b" " * (3 * 1024 * 1024 + 1))
    assert (reply.status, reply.body["message"]) == (413, "Request entity too large: limit is 3145728")


async def test_stale_put_conflicts_and_changes_nothing(api: Api) -> None:
    old = await api.post(CONFIG_MAPS, config_map("u1"))
    await api.patch(f"{CONFIG_MAPS}/u1", {"data": {"a": "2"}})
    reply = await api.call("PUT", f"{CONFIG_MAPS}/u1", {**old, "data": {"a": "3"}})
    assert (reply.status, reply.body["reason"]) == (409, "Conflict")
    assert reply.body["message"] == (
        'Operation cannot be fulfilled on configmaps "u1": the object has been modified; please apply your changes to '
        "the latest version and try again"
    )
    assert (await api.get(f"{CONFIG_MAPS}/u1"))["data"] == {"a": "2"}


async def test_put_without_version_wins(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    assert (await api.put(f"{CONFIG_MAPS}/a", {"metadata": {"name": "a"}, "data": {"b": "2"}}))["data"] == {"b": "2"}


async def test_lease_put_needs_a_version_or_creates(api: Api) -> None:
    lease = {"metadata": {"name": "zz9"}, "spec": {"holderIdentity": "me"}}
    assert (await api.call("PUT", f"{LEASES}/zz9", lease)).status == 201
    reply = await api.call("PUT", f"{LEASES}/zz9", lease)
    assert reply.status == 422
    assert reply.body["message"] == (
        'leases.coordination.k8s.io "zz9" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )
    assert reply.body["details"]["kind"] == "leases"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"name": "u2"}, "the name of the object (u2) does not match the name on the URL (u1)"),
        ({}, "the name of the object (u1 based on URL) was undeterminable: name must be provided"),
    ],
)
async def test_put_names_the_object_of_its_url(api: Api, metadata: Any, message: str) -> None:
    await api.post(CONFIG_MAPS, config_map("u1"))
    reply = await api.call("PUT", f"{CONFIG_MAPS}/u1", {"metadata": metadata})
    assert (reply.status, reply.body["message"]) == (400, message)


async def test_another_uid_is_refused_by_put_and_patch(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    put = await api.call("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "a", "uid": "other"}})
    form = "application/merge-patch+json"
    patch = await api.call("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"uid": "other"}}, content_type=form)
    assert (put.status, put.body["reason"]) == (409, "Conflict")
    assert (patch.status, patch.body["details"]["causes"][0]) == (
        422,
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "other": field is immutable',
            "field": "metadata.uid",
        },
    )


async def test_times_of_the_server_cannot_be_written(api: Api) -> None:
    old = await api.post(CONFIG_MAPS, config_map("a"))
    new = await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"creationTimestamp": LONG_AGO, "generation": 9}})
    assert new == old


@pytest.mark.parametrize(
    ("finalizers", "given", "fields"),
    [
        pytest.param([], {"deletionTimestamp": LONG_AGO}, ["deletionTimestamp"], id="begun-by-an-update"),
        pytest.param([], {"deletionGracePeriodSeconds": 0}, ["deletionGracePeriodSeconds"], id="grace"),
        pytest.param(["a.io/b"], {"deletionTimestamp": LONG_AGO}, [], id="moment-is-kept"),
        pytest.param(["a.io/b"], {"deletionGracePeriodSeconds": 9}, ["deletionGracePeriodSeconds"], id="other-grace"),
        pytest.param(["a.io/b"], {"deletionGracePeriodSeconds": None}, [], id="grace-is-kept"),
    ],
)
async def test_deletion_is_not_written_by_an_update(
    api: Api, finalizers: list[str], given: dict[str, Any], fields: list[str]
) -> None:
    """Source: apimachinery/pkg/api/validation/objectmeta.go, ValidateObjectMetaAccessorUpdate; rest/update.go."""
    await api.post(CONFIG_MAPS, config_map("a") | {"metadata": {"name": "a", "finalizers": finalizers}})
    if finalizers:
        await api.delete(f"{CONFIG_MAPS}/a")
    before = await api.get(f"{CONFIG_MAPS}/a")
    metadata = {name: value for name, value in {**before["metadata"], **given}.items() if value is not None}
    reply = await api.call("PUT", f"{CONFIG_MAPS}/a", {**before, "metadata": metadata})
    causes = reply.body["details"]["causes"] if reply.status == 422 else []
    assert [(one["field"], one["message"].rpartition(": ")[2]) for one in causes] == [
        # Upstream checks the metadata of a ConfigMap twice.
        (f"metadata.{name}", "field is immutable")
        for name in fields
        for _ in range(2)
    ]
    assert await api.get(f"{CONFIG_MAPS}/a") == before


async def test_generation_of_a_new_object_is_not_negative(api: Api) -> None:
    reply = await api.call("POST", CONFIG_MAPS, {"metadata": {"name": "a", "generation": -1}})
    assert [one["field"] for one in reply.body["details"]["causes"]] == ["metadata.generation"]


async def test_merge_patch_with_stale_version_conflicts(api: Api) -> None:
    old = await api.post(CONFIG_MAPS, config_map("a"))
    patch = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"a": "2"}}
    await api.patch(f"{CONFIG_MAPS}/a", patch)
    patch["data"] = {"a": "3"}
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/a", patch, content_type="application/merge-patch+json")
    assert (reply.status, reply.body["reason"]) == (409, "Conflict")


async def test_failing_json_patch_does_not_say_why(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    steps = [{"op": "test", "path": "/data/a", "value": "7"}]
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/a", steps, content_type="application/json-patch+json")
    assert (reply.status, reply.body["reason"], reply.body["details"]) == (422, "Invalid", {})
    assert reply.body["message"] == "the server rejected our request due to an error in our request"


async def test_json_patch_sees_version_and_type(api: Api) -> None:
    old = await api.post(CONFIG_MAPS, config_map("a"))
    steps = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": old["metadata"]["resourceVersion"]},
        {"op": "test", "path": "/kind", "value": "ConfigMap"},
        {"op": "add", "path": "/metadata/finalizers", "value": ["a.io/b"]},
    ]
    new = await api.patch(f"{CONFIG_MAPS}/a", steps, "json-patch")
    assert new["metadata"]["finalizers"] == ["a.io/b"]


async def test_patch_of_another_form_is_unsupported(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/a", {}, content_type="application/json")
    assert (reply.status, reply.body["reason"]) == (415, "UnsupportedMediaType")


async def test_main_resource_keeps_the_status(api: Api) -> None:
    await api.post(PODS, pod("a"))
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}})
    changed = await api.patch(f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Failed"}})
    assert changed["status"]["phase"] == "Running"
    assert "nodeName" not in changed["spec"]


async def test_status_write_persists_metadata_of_built_ins(api: Api) -> None:
    created = await api.post(JOBS, job("x", labels={"old": "1"}))
    created["metadata"] |= {"labels": {"only": "this"}, "finalizers": ["a.io/b"]}
    await api.put(f"{JOBS}/x/status", created)
    stored = await api.get(f"{JOBS}/x")
    assert stored["metadata"]["labels"] == {"only": "this"}
    assert stored["metadata"]["finalizers"] == ["a.io/b"]
    assert stored["metadata"]["generation"] == 1


async def test_pod_status_write_keeps_the_owners(api: Api) -> None:
    about = owner(await api.post(CONFIG_MAPS, config_map("o")))
    created = await api.post(PODS, pod("a", ownerReferences=[about]))
    created["metadata"].pop("ownerReferences")
    assert (await api.put(f"{PODS}/a/status", created))["metadata"]["ownerReferences"] == [about]


async def test_generation_counts_changes_of_the_spec(api: Api) -> None:
    await api.post(JOBS, job("x"))
    labelled = await api.patch(f"{JOBS}/x", {"metadata": {"labels": {"a": "b"}}})
    scaled = await api.patch(f"{JOBS}/x", {"spec": {"parallelism": 3}})
    assert (labelled["metadata"]["generation"], scaled["metadata"]["generation"]) == (1, 2)


async def test_dry_run_leaves_nothing_behind(api: Api) -> None:
    made = await api.post(f"{CONFIG_MAPS}?dryRun=All", config_map("a"))
    assert "resourceVersion" not in made["metadata"]
    assert "uid" in made["metadata"]
    old = await api.post(CONFIG_MAPS, config_map("b"))
    changed = await api.patch(f"{CONFIG_MAPS}/b?dryRun=All", {"data": {"a": "2"}})
    assert changed["data"] == {"a": "2"}
    await api.delete(f"{CONFIG_MAPS}/b?dryRun=All")
    assert (await api.get(CONFIG_MAPS))["items"] == [{k: v for k, v in old.items() if k not in ("kind", "apiVersion")}]
    reply = await api.call("POST", f"{CONFIG_MAPS}?dryRun=true", config_map("a"))
    assert (reply.status, reply.body["details"]["causes"][0]["field"]) == (422, "dryRun")


class FullStorage(Storage):
    """Breaks on what it does not like, as nothing should."""

    def put(self, kind: Kind, manifest: Manifest, old: Record | None) -> Record:
        if manifest["metadata"]["name"] == "last-straw":
            raise OSError("disk full")
        return super().put(kind, manifest, old)


async def test_fault_of_the_server_is_an_answer(kcr_clock: VirtualClock) -> None:
    api = Api(APIServer(FullStorage(), clock=kcr_clock, random=random.Random(0)))
    reply = await api.call("POST", CONFIG_MAPS, config_map("last-straw"))
    assert (reply.status, reply.body["reason"]) == (500, "InternalError")


@pytest.mark.parametrize("form", ["merge-patch", "strategic-merge-patch", "json-patch"])
@pytest.mark.parametrize("body", [b"{", b'"text"'])
async def test_document_that_is_no_patch_is_bad(api: Api, form: str, body: bytes) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/a", body, content_type=f"application/{form}+json")
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")
    assert reply.body["message"].startswith("error decoding patch: ") is (form != "strategic-merge-patch")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(
            {"spec": {"parallelism": "many"}},
            "json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32",
            id="spec",
        ),
        pytest.param(
            {"spec": []},
            "json: cannot unmarshal array into Go struct field Job.spec of type v1.JobSpec",
            id="whole-spec",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            id="metadata",
        ),
    ],
)
async def test_patch_to_the_wrong_type_is_unusable(api: Api, change: Manifest, why: str) -> None:
    # AS 10.4
    await api.post(JOBS, job("a"))
    reply = await api.call("PATCH", f"{JOBS}/a", change, content_type="application/merge-patch+json")
    assert (reply.status, reply.body["reason"]) == (422, "Invalid")
    assert reply.body["message"].startswith(' "" is invalid: patch: Invalid value: "{')
    assert why in reply.body["message"]
    assert (await api.get(f"{JOBS}/a"))["spec"]["parallelism"] == 1


async def test_owner_named_twice_is_kept_once(api: Api) -> None:
    about = [owner(await api.post(CONFIG_MAPS, config_map(name))) for name in "xy"]
    reply = await api.call("POST", PODS, pod("a", ownerReferences=[about[0], about[1], dict(about[0])]))
    assert reply.body["metadata"]["ownerReferences"] == about
    assert reply.headers["Warning"].endswith(f'duplicate UID(s) observed: {about[0]["uid"]}"')


async def test_unknown_field_validation_is_refused(api: Api) -> None:
    reply = await api.call("POST", f"{CONFIG_MAPS}?fieldValidation=Foo", config_map("a"))
    assert (reply.status, reply.body["message"]) == (
        422,
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Foo": supported values: "", '
        '"Ignore", "Strict", "Warn"',
    )
    assert (await api.call("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", config_map("a"))).status == 201


@pytest.mark.parametrize("path", ["", "/status"])
async def test_put_that_cannot_be_read_is_refused_before_its_object_is_missed(api: Api, path: str) -> None:
    body = {"metadata": {"name": "none"}, "spec": {"nodeName": 7}}
    reply = await api.call("PUT", f"/api/v1/namespaces/default/pods/none{path}", body)
    assert (reply.status, reply.body["message"]) == (
        400,
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field '
        "PodSpec.spec.nodeName of type string",
    )
    for said in ({}, {"apiVersion": ""}, {"kind": "Pod"}):
        body = {**said, "metadata": {"name": "none"}, "spec": {"nodeName": "a"}}
        assert (await api.call("PUT", f"/api/v1/namespaces/default/pods/none{path}", body)).status == 404


async def test_version_in_a_put_that_creates_has_to_be_one(api: Api) -> None:
    target = "/api/v1/namespaces/default/endpoints/none"
    reply = await api.call("PUT", target, {"metadata": {"name": "none", "resourceVersion": "x"}})
    assert (reply.status, reply.body["message"]) == (500, 'strconv.ParseUint: parsing "x": invalid syntax')
    reply = await api.call("PUT", target, {"metadata": {"name": "none", "resourceVersion": "7"}})
    assert reply.status == 201
