"""Refusals of Jobs as clients get them: code, message and causes (batch-api §§2.1, 2.2, 2.4; its catalogue, §15).

The words of single faults are in parity/requests/validation/jobs.yaml and `test_job_status_rules`; here is what takes
more than one request.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go; pkg/registry/rest/{create,update}.go.
"""

from copy import deepcopy
from typing import Any

import pytest

from tests.kit.api import Api, Reply, job

pytestmark = pytest.mark.kcr_virtual
JOBS = "/apis/batch/v1/namespaces/default/jobs"
IMMUTABLE = "field is immutable"
LONG = "a" * 64


def sent(metadata: Any = None, template: Any = None, **spec: Any) -> dict[str, Any]:
    """A Job with other metadata, other labels on its template, and more in its spec."""
    made = job("pi")
    made["metadata"] |= metadata or {}
    if template is not None:
        made["spec"]["template"]["metadata"] = {"labels": template}
    made["spec"] |= spec
    return made


def causes(reply: Reply) -> list[str]:
    """The causes of a refusal, as its message would list them."""
    return [f"{cause['field']}: {cause['message']}" for cause in reply.body["details"]["causes"]]


async def patched(api: Api, target: str, patch: Any) -> Reply:
    return await api.call("PATCH", target, patch, content_type="application/merge-patch+json")


async def test_long_name_is_fine_with_a_selector_of_ones_own(api: Api) -> None:
    # §7.1
    body = sent({"name": LONG}, {"a": "b"}, manualSelector=True, selector={"matchLabels": {"a": "b"}})
    reply = await api.call("POST", JOBS, body)
    assert reply.status == 201
    assert "must be no more than 63 characters" in reply.headers["Warning"]


async def test_name_of_indexed_job_leaves_room_for_the_index(api: Api) -> None:
    # Row 15.9; §8.2: looked at again when completions grow.
    name = "a" * 61
    spec = {"completionMode": "Indexed", "completions": 10, "parallelism": 10}
    assert (await api.call("POST", JOBS, sent({"name": name}, **spec))).status == 201
    reply = await patched(api, f"{JOBS}/{name}", {"spec": {"completions": 11, "parallelism": 11}})
    fault = f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid DNS label: {name}-10'
    assert (reply.status, causes(reply)) == (422, [fault])
    longer = await api.call("POST", JOBS, sent({"name": "a" * 62}, **spec))
    assert causes(longer)[0].endswith(f"invalid DNS label: {'a' * 62}-9")


async def test_job_of_another_namespace_is_a_bad_request(api: Api) -> None:
    # Row 15.3
    reply = await api.call("POST", JOBS, sent({"namespace": "other"}))
    assert (reply.status, reply.body["reason"], reply.body["message"]) == (
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(
            sent(parallelism="3"),
            "json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32",
            id="60",
        ),
        pytest.param(
            sent(parallelism=3000000000),
            "json: cannot unmarshal number 3000000000 into Go struct field JobSpec.spec.parallelism of type int32",
            id="61",
        ),
        pytest.param(sent(foo=1), 'strict decoding error: unknown field "spec.foo"', id="64"),
    ],
)
async def test_body_that_is_no_job_is_a_bad_request(api: Api, body: dict[str, Any], text: str) -> None:
    reply = await api.call("POST", f"{JOBS}?fieldValidation=Strict", body)
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")
    assert reply.body["message"] == f'Job in version "v1" cannot be handled as a Job: {text}'


async def test_selector_removed_is_missed_and_immutable(api: Api) -> None:
    # Row 15.68, §2.4: what both rounds of validation find is two causes and said once.
    made = await api.post(JOBS, sent())
    del made["spec"]["selector"]
    reply = await api.call("PUT", f"{JOBS}/pi", made)
    fields = [cause["field"] for cause in reply.body["details"]["causes"]]
    once = ["spec.selector", "spec.template.metadata.labels"]
    assert (reply.status, fields) == (422, [*once, *once, "spec.selector"])
    assert reply.body["message"].count("spec.selector: Required value") == 1
    assert reply.body["message"].endswith("spec.selector: Invalid value: null: field is immutable]")


async def test_replace_with_the_first_manifest_fails(api: Api) -> None:
    # §8.1: selector and labels are missing in it.
    await api.post(JOBS, sent())
    reply = await api.call("PUT", f"{JOBS}/pi", sent(parallelism=2))
    assert (reply.status, reply.body["reason"]) == (422, "Invalid")
    assert (await api.patch(f"{JOBS}/pi", sent(parallelism=2)))["spec"]["parallelism"] == 2


async def test_job_that_goes_takes_no_new_finalizers(api: Api) -> None:
    # Row 15.72
    await api.post(JOBS, sent({"finalizers": ["a.io/x"]}))
    await api.delete(f"{JOBS}/pi?propagationPolicy=Background")
    reply = await patched(api, f"{JOBS}/pi", {"metadata": {"finalizers": ["a.io/x", "b.io/y"]}})
    assert reply.status == 422
    assert causes(reply)[0] == (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"b.io/y"}'
    )
    # §8.1: everything else may change all the same.
    assert (await api.patch(f"{JOBS}/pi", {"spec": {"suspend": True}}))["spec"]["suspend"] is True
    reply = await api.call("POST", JOBS, sent())
    assert (reply.status, reply.body["message"]) == (409, 'object is being deleted: jobs.batch "pi" already exists')


async def test_stale_taken_and_absent_jobs_have_their_words(api: Api) -> None:
    # Rows 15.73 to 15.75
    made = await api.post(JOBS, sent())
    await api.patch(f"{JOBS}/pi", {"spec": {"parallelism": 2}})
    stale = await api.call("PUT", f"{JOBS}/pi", made)
    assert (stale.status, stale.body["reason"], stale.body["message"]) == (
        409,
        "Conflict",
        'Operation cannot be fulfilled on jobs.batch "pi": the object has been modified; '
        "please apply your changes to the latest version and try again",
    )
    taken = await api.call("POST", JOBS, sent())
    assert (taken.status, taken.body["reason"], taken.body["message"]) == (
        409, "AlreadyExists", 'jobs.batch "pi" already exists'
    )  # fmt: skip
    absent = await api.call("PUT", f"{JOBS}/pj", {**deepcopy(made), "metadata": {"name": "pj"}})
    assert (absent.status, absent.body["reason"], absent.body["message"]) == (
        404, "NotFound", 'jobs.batch "pj" not found'
    )  # fmt: skip


async def test_terminating_namespace_takes_no_jobs(api: Api) -> None:
    # Row 15.82
    await api.post("/api/v1/namespaces", {"metadata": {"name": "leaving"}})
    room = "/apis/batch/v1/namespaces/leaving/jobs"
    await api.post(room, sent({"name": "holds", "finalizers": ["a.io/x"]}))
    await api.delete("/api/v1/namespaces/leaving")
    reply = await api.call("POST", room, sent())
    assert (reply.status, reply.body["reason"], reply.body["message"]) == (
        403,
        "Forbidden",
        'jobs.batch "pi" is forbidden: '
        "unable to create new content in namespace leaving because it is being terminated",
    )
    assert reply.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace leaving is being terminated",
            "field": "metadata.namespace",
        }
    ]


async def test_identity_is_the_servers_to_give(api: Api) -> None:
    # §2.1
    made = await api.post(JOBS, sent({"uid": "mine", "generation": 7, "creationTimestamp": "2001-01-01T00:00:00Z"}))
    assert made["metadata"]["uid"] != "mine"
    assert (made["metadata"]["generation"], made["metadata"]["creationTimestamp"]) == (1, "2026-01-01T00:00:00Z")
    reply = await api.call("POST", JOBS, sent({"name": "pj", "resourceVersion": "5"}))
    assert (reply.status, reply.body.get("reason", ""), reply.body["message"]) == (
        500, "", "resourceVersion should not be set on objects to be created"
    )  # fmt: skip
    drawn = await api.post(JOBS, sent({"name": "", "generateName": "b" * 60}))
    assert drawn["metadata"]["name"].startswith("b" * 58)
    assert len(drawn["metadata"]["name"]) == 63
    assert drawn["spec"]["template"]["metadata"]["labels"]["job-name"] == drawn["metadata"]["name"]


async def test_identity_is_kept_by_every_write(api: Api) -> None:
    # §2.2
    made = await api.post(JOBS, sent())
    other = deepcopy(made)
    other["metadata"]["uid"] = "another"
    assert (await api.call("PUT", f"{JOBS}/pi", other)).status == 409
    reply = await patched(api, f"{JOBS}/pi", {"metadata": {"uid": "another"}})
    assert (reply.status, causes(reply)) == (422, [f'metadata.uid: Invalid value: "another": {IMMUTABLE}'] * 2)
    renamed = deepcopy(made)
    renamed["metadata"]["name"] = "pj"
    reply = await api.call("PUT", f"{JOBS}/pi", renamed)
    assert (reply.status, reply.body["message"]) == (
        400, "the name of the object (pj) does not match the name on the URL (pi)"
    )  # fmt: skip
    blind = deepcopy(made)
    blind["metadata"] = {"name": "pi", "labels": made["metadata"]["labels"]}
    written = await api.put(f"{JOBS}/pi", blind)
    assert written["metadata"] == made["metadata"]


async def test_generation_counts_changes_of_the_spec_that_mean_something(api: Api) -> None:
    # §§2.5, 4
    made = await api.post(JOBS, sent(suspend=True))
    container = {"name": "c", "image": "busybox", "resources": {"limits": {"cpu": "1"}}}
    first = await api.patch(f"{JOBS}/pi", {"spec": {"template": {"spec": {"containers": [container]}}}})
    assert (made["metadata"]["generation"], first["metadata"]["generation"]) == (1, 2)
    container["resources"] = {"limits": {"cpu": "1000m"}}
    container["args"] = []
    same = await api.patch(f"{JOBS}/pi", {"spec": {"template": {"spec": {"containers": [container]}}}})
    assert same == first
    assert (await api.patch(f"{JOBS}/pi", {"metadata": {"labels": {"x": "y"}}}))["metadata"]["generation"] == 2


async def test_null_brings_the_default_back(api: Api) -> None:
    # §8.1
    await api.post(JOBS, sent(backoffLimit=1))
    assert (await api.patch(f"{JOBS}/pi", {"spec": {"backoffLimit": None}}))["spec"]["backoffLimit"] == 6


async def test_labels_removed_from_a_job_are_there_again(api: Api) -> None:
    # §2.3
    made = await api.post(JOBS, sent())
    await api.patch(f"{JOBS}/pi", {"metadata": {"labels": None}})
    assert (await api.get(f"{JOBS}/pi"))["metadata"]["labels"] == made["metadata"]["labels"]
    assert len((await api.get(f"{JOBS}?labelSelector=job-name=pi"))["items"]) == 1


async def test_status_write_takes_metadata_and_leaves_the_spec(api: Api) -> None:
    # §4, job-controller §2.5
    made = await api.post(JOBS, sent())
    made["metadata"] |= {"annotations": {"a": "b"}, "finalizers": ["a.io/x"]}
    made["spec"]["parallelism"] = 9
    made["status"] = {"startTime": "2026-01-01T00:00:00Z", "active": 1, "conditions": [{"type": "X", "status": "Y"}]}
    written = await api.put(f"{JOBS}/pi/status", made)
    assert (written["spec"]["parallelism"], written["metadata"]["generation"]) == (1, 1)
    assert (written["metadata"]["annotations"], written["metadata"]["finalizers"]) == ({"a": "b"}, ["a.io/x"])
    assert written["status"]["conditions"][0]["type"] == "X"
    # The main resource leaves the status alone.
    written["status"] = {}
    assert (await api.put(f"{JOBS}/pi", written))["status"]["active"] == 1


@pytest.mark.parametrize(
    ("selector", "count"), [("status.successful=0", 1), ("status.successful=1", 0), ("status.successful!=1", 1)]
)
async def test_jobs_are_selected_by_their_successes(api: Api, selector: str, count: int) -> None:
    # §14
    await api.post(JOBS, sent())
    assert len((await api.get(f"{JOBS}?fieldSelector={selector}"))["items"]) == count


async def test_unknown_field_label_is_a_bad_request(api: Api) -> None:
    # §14
    reply = await api.call("GET", f"{JOBS}?fieldSelector=status.active=1")
    assert (reply.status, reply.body["message"]) == (400, 'field label "status.active" not supported for Job')
