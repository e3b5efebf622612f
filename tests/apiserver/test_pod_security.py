"""Pod Security admission: pods, templates of workloads, and labels of namespaces.

Source: k8s.io/pod-security-admission v0.36, admission/admission_test.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, Reply

pytestmark = pytest.mark.kcr_virtual
ENFORCE, WARN = "pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/warn"
PODS = "/api/v1/namespaces/team/pods"
PRIVILEGED: Any = {"privileged": True}
WORDS = 'privileged (container "c" must not set securityContext.privileged=true)'


async def namespace(api: Api, **labels: str) -> None:
    """Make the namespace `team` with Pod Security labels."""
    given = {f"pod-security.kubernetes.io/{mode.replace('_', '-')}": level for mode, level in labels.items()}
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team", "labels": given}})


def spec(**context: bool) -> dict[str, Any]:
    """The spec of a pod with one container of this security context."""
    return {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "securityContext": context}]}


def pod(name: str = "p", **context: bool) -> dict[str, Any]:
    """A pod with one container of this security context."""
    return {"metadata": {"name": name}, "spec": spec(**context)}


def warnings(reply: Reply) -> str:
    """The header of warnings without the escapes."""
    return reply.headers.get("Warning", "").replace("\\", "")


async def test_pod_below_the_enforced_level_is_refused(api: Api) -> None:
    await namespace(api, enforce="baseline")
    reply = await api.call("POST", PODS, pod(**PRIVILEGED))
    assert (reply.status, reply.body["reason"]) == (403, "Forbidden")
    assert reply.body["message"] == f'pods "p" is forbidden: violates PodSecurity "baseline:latest": {WORDS}'
    assert "Warning" not in reply.headers
    assert (await api.call("POST", PODS, pod())).status == 201


async def test_generated_name_is_in_the_refusal(api: Api) -> None:
    await namespace(api, enforce="baseline")
    reply = await api.call("POST", PODS, {"metadata": {"generateName": "web-"}, "spec": spec(**PRIVILEGED)})
    assert reply.body["message"].startswith('pods "web-')


async def test_version_of_the_level_is_evaluated(api: Api) -> None:
    await namespace(api, enforce="restricted", enforce_version="v1.7", warn="privileged")
    context: Any = {"runAsNonRoot": True}
    assert (await api.call("POST", PODS, pod(**context))).status == 201
    reply = await api.call("POST", PODS, pod("q", runAsNonRoot=False))
    assert 'violates PodSecurity "restricted:v1.7": runAsNonRoot != true' in reply.body["message"]


async def test_namespace_without_labels_allows_everything(api: Api) -> None:
    await namespace(api)
    reply = await api.call("POST", PODS, pod(**PRIVILEGED))
    assert (reply.status, reply.headers.get("Warning")) == (201, None)


async def test_pod_that_violates_the_warn_level_is_created_with_a_warning(api: Api) -> None:
    await namespace(api, warn="baseline")
    reply = await api.call("POST", PODS, pod(**PRIVILEGED))
    assert reply.status == 201
    assert f'would violate PodSecurity "baseline:latest": {WORDS}' in warnings(reply)


WORKLOADS = [
    pytest.param(
        "/apis/apps/v1/namespaces/team/deployments", {"selector": {"matchLabels": {"a": "b"}}}, id="deployment"
    ),
    pytest.param("/apis/apps/v1/namespaces/team/daemonsets", {"selector": {"matchLabels": {"a": "b"}}}, id="daemonset"),
    pytest.param("/apis/batch/v1/namespaces/team/jobs", {}, id="job"),
]


@pytest.mark.parametrize(("target", "more"), WORKLOADS)
async def test_workload_that_violates_the_enforced_level_is_warned_about(
    api: Api, target: str, more: dict[str, Any]
) -> None:
    await namespace(api, enforce="baseline")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec(**PRIVILEGED)}
    if "batch" not in target:
        template["spec"] = {**template["spec"], "restartPolicy": "Always"}
    reply = await api.call("POST", target, {"metadata": {"name": "w"}, "spec": {**more, "template": template}})
    assert reply.status == 201
    assert f'would violate PodSecurity "baseline:latest": {WORDS}' in warnings(reply)


async def test_template_of_a_cron_job_is_warned_about(api: Api) -> None:
    await namespace(api, enforce="baseline")
    job = {"spec": {"template": {"spec": spec(**PRIVILEGED)}}}
    body = {"metadata": {"name": "w"}, "spec": {"schedule": "@daily", "jobTemplate": job}}
    reply = await api.call("POST", "/apis/batch/v1/namespaces/team/cronjobs", body)
    assert (reply.status, WORDS in warnings(reply)) == (201, True)


async def test_update_of_a_pod_is_refused_when_its_image_changes(api: Api) -> None:
    await namespace(api)
    made = await api.post(PODS, pod(**PRIVILEGED))
    await api.patch("/api/v1/namespaces/team", {"metadata": {"labels": {ENFORCE: "baseline"}}})
    made["metadata"]["labels"] = {"a": "b"}
    made = await api.put(f"{PODS}/p", made)
    made["spec"]["containers"][0]["image"] = "other"
    reply = await api.call("PUT", f"{PODS}/p", made)
    assert (reply.status, "violates PodSecurity" in reply.body["message"]) == (403, True)


async def test_status_of_a_pod_is_written_below_the_level(api: Api) -> None:
    await namespace(api)
    await api.post(PODS, pod(**PRIVILEGED))
    await api.patch("/api/v1/namespaces/team", {"metadata": {"labels": {ENFORCE: "baseline"}}})
    assert (await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}))["status"]["phase"] == "Running"


async def test_invalid_labels_of_a_namespace_are_refused(api: Api) -> None:
    body = {"metadata": {"name": "team", "labels": {ENFORCE: "high", f"{ENFORCE}-version": "1.2"}}}
    reply = await api.call("POST", "/api/v1/namespaces", body)
    assert (reply.status, reply.body["reason"]) == (422, "Invalid")
    assert [(one["field"], one["message"]) for one in reply.body["details"]["causes"]] == [
        (f"metadata.labels[{ENFORCE}]", 'Invalid value: "high": must be one of privileged, baseline, restricted'),
        (f"metadata.labels[{ENFORCE}-version]", 'Invalid value: "1.2": must be "latest" or "v1.x"'),
    ]
    await namespace(api)
    change = {"metadata": {"labels": {WARN: "high"}}}
    reply = await api.call("PATCH", "/api/v1/namespaces/team", change, content_type="application/merge-patch+json")
    assert reply.status == 422


async def test_existing_pods_are_held_against_a_new_level(api: Api) -> None:
    await namespace(api)
    for name in ("b", "a", "c"):
        await api.post(PODS, pod(name, **PRIVILEGED))
    await api.post(PODS, {"metadata": {"name": "net"}, "spec": {**spec(), "hostNetwork": True}})
    await api.post(PODS, pod("fine"))
    change = {"metadata": {"labels": {ENFORCE: "baseline"}}}
    reply = await api.call("PATCH", "/api/v1/namespaces/team", change, content_type="application/merge-patch+json")
    texts = [one.removeprefix('299 - "').removesuffix('"') for one in warnings(reply).split(', 299 - "')]
    assert texts == [
        'existing pods in namespace "team" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 2 other pods): privileged",
        "net: host namespaces",
    ]
    change = {"metadata": {"labels": {"a": "b"}}}
    reply = await api.call("PATCH", "/api/v1/namespaces/team", change, content_type="application/merge-patch+json")
    assert "Warning" not in reply.headers
