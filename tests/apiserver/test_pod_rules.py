"""Which pods are refused, what may change in one, and what its status may say (batch-api §§12.1 to 12.3, 14).

Source: kubernetes/pkg/apis/core/validation/validation_test.go; pkg/apis/core/helper/qos/qos_test.go.
"""

from copy import deepcopy

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.api import Api, pod_binding
from tests.kit.api import pod as plain_pod
from tests.kit.manifests import PODS, changed, pod, refused, refused_pod_status, stored_pod

PATH = "/api/v1/namespaces/default/pods"


def test_warnings_of_a_pod_come_again_with_another_spec() -> None:
    # batch-api §6
    old = stored_pod(pod())
    old["spec"]["terminationGracePeriodSeconds"] = -1
    old["metadata"]["name"] = "a.b"
    words = "must be >= 0; negative values are invalid and will be treated as 1"
    grace = f"spec.terminationGracePeriodSeconds: {words}"
    assert [one.partition(":")[0] for one in PODS.warnings(old, None)] == ["metadata.name", grace.partition(":")[0]]
    assert PODS.warnings(old, deepcopy(old)) == []
    assert PODS.warnings(changed(old, activeDeadlineSeconds=5), old) == [grace]


def test_resources_of_the_pod_replace_those_of_containers() -> None:
    # batch-api §12.2
    limits = {"limits": {"cpu": "1", "memory": "1Gi"}}
    made = stored_pod(pod(resources=limits, containers=[{"name": "c", "image": "i"}]))
    assert made["status"]["qosClass"] == "Guaranteed"
    contained = [{"name": "c", "image": "i", "resources": limits}]
    assert stored_pod(pod(resources={"requests": {"cpu": "1"}}, containers=contained))["status"]["qosClass"] == (
        "Burstable"
    )


def test_init_containers_count_for_quality_of_service() -> None:
    # batch-api §12.2
    limits = {"limits": {"cpu": "1", "memory": "1Gi"}}
    contained = [{"name": "c", "image": "i", "resources": limits}]
    made = stored_pod(pod(containers=contained, initContainers=[{"name": "i", "image": "i"}]))
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("containers", "policy", "allowed"),
    [
        pytest.param("containers", "Always", True, id="container-of-its-own-policy"),
        pytest.param("containers", None, False, id="container-of-the-pods-policy"),
        pytest.param("initContainers", "Always", True, id="sidecar"),
        pytest.param("initContainers", None, False, id="init-container"),
    ],
)
def test_ended_container_follows_its_own_policy_first(containers: str, policy: str | None, allowed: bool) -> None:
    # batch-api §12.3
    own = {"name": "x", "image": "i", **({"restartPolicy": policy} if policy else {})}
    spec: Manifest = {"restartPolicy": "Never", containers: [own]}
    old = stored_pod(pod(**spec))
    statuses = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}[containers]
    old["status"][statuses] = [{"name": "x", "state": {"terminated": {"exitCode": 1}}}]
    found = refused_pod_status(old, **{statuses: [{"name": "x", "state": {"running": {}}}]})
    assert found == (
        [] if allowed else [f"status.{statuses}[0].state: Forbidden: may not be transitioned to non-terminated state"]
    )


def rule(*codes: int, operator: str = "In", action: str = "Restart") -> Manifest:
    return {"action": action, "exitCodes": {"operator": operator, "values": list(codes)}}


@pytest.mark.parametrize(
    ("rules", "code", "allowed"),
    [
        pytest.param([rule(42)], 42, True, id="code-in-the-list"),
        pytest.param([rule(42)], 1, False, id="code-not-in-the-list"),
        pytest.param([rule(42, operator="NotIn")], 1, True, id="code-outside-the-list"),
        pytest.param([rule(88, action="RestartAllContainers")], 0, True, id="restarted-with-all-others"),
    ],
)
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
def test_ended_container_may_run_again_by_a_rule(
    containers: str, rules: list[Manifest], code: int, allowed: bool
) -> None:
    """Source: kubernetes/pkg/api/v1/pod/util.go, ContainerShouldRestart and AllContainersCouldRestart."""
    own = {"name": "x", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules}
    old = stored_pod(pod(**{"restartPolicy": "Never", containers: [own]}))
    statuses = containers.replace("ainers", "ainerStatuses")
    old["status"][statuses] = [{"name": "x", "state": {"terminated": {"exitCode": code}}}]
    found = refused_pod_status(old, **{statuses: [{"name": "x", "state": {"running": {}}}]})
    assert (not found) is allowed


CONTAINER = "spec.containers[0]"
RULES = f"{CONTAINER}.restartPolicyRules"


@pytest.mark.parametrize(
    ("container", "faults"),
    [
        pytest.param(
            {"restartPolicy": "Never", "restartPolicyRules": [rule(*range(256))] * 21},
            [
                f"{RULES}: Too many: 21: must have at most 20 items",
                *(f"{RULES}[{n}].exitCodes.values: Too many: 256: must have at most 255 items" for n in range(21)),
            ],
            id="too-many",
        ),
    ],
)
def test_restart_rules_of_a_container_are_validated(container: Manifest, faults: list[str]) -> None:
    """Source: kubernetes/pkg/apis/core/validation/validation.go, validateContainerRestartPolicy."""
    made = pod(containers=[{"name": "c", "image": "i", **container}])
    assert refused(made, PODS) == faults


RUNNING: Manifest = {"running": {}}
ENDED: Manifest = {"terminated": {"exitCode": 1}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([{"name": "c", "state": RUNNING}], [{"name": "c", "state": RUNNING}], id="runs-on"),
        pytest.param([{"name": "c"}], [{"name": "c", "state": RUNNING}], id="starts"),
        pytest.param([{"name": "c", "state": RUNNING}], [{"name": "c", "state": ENDED}], id="ends"),
        pytest.param([{"name": "c", "state": ENDED}], [{"name": "c", "state": ENDED}], id="stays-ended"),
        pytest.param([{"name": "c", "state": ENDED}], [], id="is-no-longer-told-of"),
        pytest.param(
            [{"name": "c", "state": ENDED}], [{"name": "c", "state": ENDED}, {"name": "d", "state": RUNNING}],
            id="another-runs",
        ),
    ],
)  # fmt: skip
def test_container_that_never_restarts_may_go_on(before: list[Manifest], after: list[Manifest]) -> None:
    # batch-api §12.3
    old = stored_pod(pod(restartPolicy="Never"))
    old["status"]["containerStatuses"] = before
    assert refused_pod_status(old, containerStatuses=after) == []


def test_pod_status_write_keeps_the_observed_generation() -> None:
    # batch-api §4
    old = stored_pod(pod())
    old["status"]["observedGeneration"] = 3
    new = {**deepcopy(old), "status": {"phase": "Running"}}
    PODS.prepare_status(new, old)
    assert (new["status"]["observedGeneration"], new["status"]["qosClass"]) == (3, "BestEffort")


@pytest.mark.kcr_virtual
async def test_pod_update_is_refused_over_the_wire_with_a_difference(api: Api) -> None:
    # batch-api rows 15.66, 15.76 to 15.79, §2.4
    await api.post(PATH, plain_pod("p"))
    patch = {"spec": {"restartPolicy": "Always"}}
    reply = await api.call("PATCH", f"{PATH}/p", patch, content_type="application/merge-patch+json")
    (cause,) = reply.body["details"]["causes"]
    assert (reply.status, cause["field"], cause["reason"]) == (422, "spec", "FieldValueForbidden")
    assert reply.body["message"] == f'Pod "p" is invalid: spec: {cause["message"]}'
    assert reply.body["details"] == {"name": "p", "kind": "Pod", "causes": [cause]}


@pytest.mark.kcr_virtual
async def test_spec_of_pod_counts_generations_and_status_does_not(api: Api) -> None:
    # batch-api §§3.4, 12.1
    await api.post(PATH, plain_pod("p"))
    assert (await api.patch(f"{PATH}/p", {"spec": {"activeDeadlineSeconds": 9}}))["metadata"]["generation"] == 2
    assert (await api.patch(f"{PATH}/p/status", {"status": {"phase": "Running"}}))["metadata"]["generation"] == 2
    shorter = await api.call(
        "PATCH", f"{PATH}/p", {"spec": {"activeDeadlineSeconds": 10}}, content_type="application/merge-patch+json"
    )
    assert shorter.status == 422


@pytest.mark.kcr_virtual
@pytest.mark.parametrize("label", ["spec.nodeName", "spec.host"])
async def test_pods_are_selected_by_their_node(api: Api, label: str) -> None:
    # batch-api §14
    for name in ("pa", "pb"):
        await api.post(PATH, plain_pod(name))
    await api.post(f"{PATH}/pb/binding", pod_binding("pb"))
    (found,) = (await api.get(f"{PATH}?fieldSelector={label}=n1"))["items"]
    assert found["metadata"]["name"] == "pb"


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    "selector",
    [
        pytest.param("spec.restartPolicy=Never", id="restart-policy"),
        pytest.param("spec.schedulerName=default-scheduler", id="scheduler"),
        pytest.param("spec.serviceAccountName=", id="service-account"),
        pytest.param("spec.hostNetwork=false", id="host-network"),
        pytest.param("status.phase=Pending", id="phase"),
        pytest.param("status.podIP=", id="address"),
        pytest.param("status.nominatedNodeName=", id="nominated-node"),
        pytest.param("metadata.namespace=default,metadata.name=p", id="names"),
    ],
)
async def test_pods_are_selected_by_their_fields(api: Api, selector: str) -> None:
    # batch-api §14
    await api.post(PATH, plain_pod("p"))
    assert len((await api.get(f"{PATH}?fieldSelector={selector}"))["items"]) == 1
    opposite = selector.replace("=", "!=")
    assert (await api.get(f"{PATH}?fieldSelector={opposite}"))["items"] == []


@pytest.mark.kcr_virtual
async def test_os_of_a_pod_is_checked_though_it_is_empty(api: Api) -> None:
    # Go holds it by a pointer.
    made = plain_pod("a")
    reply = await api.call("POST", "/api/v1/namespaces/default/pods", {**made, "spec": {**made["spec"], "os": {}}})
    assert reply.status == 422
    assert [cause["field"] for cause in reply.body["details"]["causes"]] == ["spec.os.name"]
