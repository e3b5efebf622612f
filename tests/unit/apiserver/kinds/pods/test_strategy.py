from copy import deepcopy
from functools import partial

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit import manifests
from tests.kit.manifests import PODS, changed, pod, refused_pod_status, stored_pod

refused_update = partial(manifests.refused_update, strategy=PODS)


def test_pod_gets_defaults_status_and_marks_of_admission() -> None:
    # BA 3.4, AS 16.1
    made = stored_pod({**pod(), "status": {"phase": "Running"}})
    spec = made["spec"]
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert (spec["restartPolicy"], spec["enableServiceLinks"]) == ("Always", True)
    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_pod_that_tolerates_everything_gets_no_tolerations() -> None:
    everything = [{"operator": "Exists"}]
    assert stored_pod(pod(tolerations=everything))["spec"]["tolerations"] == everything


def test_requests_are_copied_from_limits() -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    made = stored_pod(pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_ports_of_host_network_are_the_hosts() -> None:
    made = stored_pod(pod(hostNetwork=True, containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]))
    assert made["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]


def test_gated_pod_says_so_in_its_conditions() -> None:
    made = stored_pod(pod(schedulingGates=[{"name": "a.io/x"}]))
    assert made["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": None,
            "lastTransitionTime": None,
        }
    ]


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        pytest.param([{}], "BestEffort", id="nothing"),
        pytest.param([{"requests": {"cpu": "0"}}], "BestEffort", id="zero-is-nothing"),
        pytest.param([{"requests": {"cpu": "1"}}], "Burstable", id="request-alone"),
        pytest.param([{"limits": {"cpu": "1"}}], "Burstable", id="one-limit"),
        pytest.param([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed", id="both-limits"),
        pytest.param([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable", id="one-container-without"),
        pytest.param(
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}], "Burstable", id="lower-request"
        ),
        pytest.param([{"limits": {"ephemeral-storage": "1Gi"}}], "BestEffort", id="storage-does-not-count"),
    ],
)
def test_quality_of_service_follows_from_resources(resources: list[Manifest], quality: str) -> None:
    # BA 12.2
    containers = [{"name": f"c{n}", "image": "i", "resources": one} for n, one in enumerate(resources)]
    assert stored_pod(pod(containers=containers))["status"]["qosClass"] == quality


def with_image(old: Manifest, image: str) -> Manifest:
    new = deepcopy(old)
    new["spec"]["containers"][0]["image"] = image
    return new


def test_little_of_a_pod_may_change() -> None:
    # BA 12.1
    old = stored_pod(pod(terminationGracePeriodSeconds=-1))
    more = [*old["spec"]["tolerations"], {"key": "k", "operator": "Exists"}]
    assert refused_update(old, with_image(old, "other")) == []
    assert refused_update(old, changed(old, activeDeadlineSeconds=5)) == []
    assert refused_update(old, changed(old, tolerations=more)) == []
    assert refused_update(old, changed(old, terminationGracePeriodSeconds=1)) == []


def test_other_changes_of_a_pod_are_forbidden() -> None:
    # BA 15.66
    old = stored_pod(pod())
    (fault,) = refused_update(old, changed(old, restartPolicy="Never"))
    assert fault.startswith(
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
        "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
    )
    assert '-  restartPolicy: "Always"\n+  restartPolicy: "Never"' in fault


@pytest.mark.parametrize(
    ("manifest", "change", "fault"),
    [
        pytest.param(
            pod(),
            {"schedulingGates": [{"name": "a.io/x"}]},
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a.io/x'",
            id="77",
        ),
        pytest.param(
            pod(),
            {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]},
            "spec.containers: Forbidden: pod updates may not add or remove containers",
            id="78",
        ),
        pytest.param(
            pod(activeDeadlineSeconds=5),
            {"activeDeadlineSeconds": 6},
            "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value",
            id="79",
        ),
        pytest.param(
            pod(activeDeadlineSeconds=5),
            {"activeDeadlineSeconds": None},
            "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
            id="deadline-removed",
        ),
        pytest.param(
            pod(tolerations=[{"operator": "Exists"}]),
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
            id="toleration-changed",
        ),
    ],
)
def test_change_of_pod_is_refused_in_upstreams_words(manifest: Manifest, change: Manifest, fault: str) -> None:
    old = stored_pod(manifest)
    assert fault in refused_update(old, changed(old, **change))


def test_gates_go_and_gated_pod_may_be_steered() -> None:
    old = stored_pod(pod(schedulingGates=[{"name": "a.io/x"}], nodeSelector={"a": "b"}))
    assert refused_update(old, changed(old, schedulingGates=[])) == []
    assert refused_update(old, changed(old, nodeSelector={"a": "b", "c": "d"})) == []
    (fault,) = refused_update(old, changed(old, nodeSelector={"c": "d"}))
    assert fault.endswith("only additions are allowed (no mutations or deletions)")


def test_same_pod_put_back_without_defaults_is_no_change() -> None:
    old = stored_pod(pod())
    assert refused_update(old, pod()) == []


def test_any_phase_may_follow_any_other() -> None:
    # BA 12.3
    old = stored_pod(pod())
    old["status"]["phase"] = "Succeeded"
    assert refused_pod_status(old, phase="Running") == refused_pod_status(old, phase="Foo") == []


def test_quality_of_service_stays_when_left_out() -> None:
    # BA 15.80
    old = stored_pod(pod())
    assert refused_pod_status(old, phase="Running") == []
    (fault,) = refused_pod_status(old, qosClass="Guaranteed")
    assert fault == 'status.qosClass: Invalid value: "Guaranteed": field is immutable'


def ended(code: int) -> Manifest:
    return {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}]}


RUNNING = [{"name": "c", "state": {"running": {}}}]


@pytest.mark.parametrize(
    ("policy", "code", "allowed"),
    [
        pytest.param("Always", 0, True, id="always"),
        pytest.param("OnFailure", 1, True, id="on-failure-failed"),
        pytest.param("OnFailure", 0, False, id="on-failure-succeeded"),
        pytest.param("Never", 1, False, id="never"),
    ],
)
def test_ended_container_comes_back_only_by_its_policy(policy: str, code: int, allowed: bool) -> None:
    # BA 12.3
    old = stored_pod(pod(restartPolicy=policy))
    old["status"] |= ended(code)
    fault = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    assert refused_pod_status(old, containerStatuses=deepcopy(RUNNING)) == ([] if allowed else [fault])


def test_status_shows_what_clients_insist_on() -> None:
    new = stored_pod(pod())
    new["status"] = {"containerStatuses": [{"name": "c"}], "podIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}
    PODS.default(new)
    assert new["status"] == {
        "containerStatuses": [{"name": "c", "ready": False, "restartCount": 0, "image": "", "imageID": ""}],
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "hostIP": "10.0.0.2",
        "hostIPs": [{"ip": "10.0.0.2"}],
    }


@pytest.mark.parametrize(
    ("status", "field"),
    [
        pytest.param({"conditions": [{"type": "a b", "status": "True"}]}, "status.conditions[0].type", id="condition"),
        pytest.param({"podIP": "nowhere"}, "status.podIPs[0]", id="address"),
    ],
)
def test_malformed_part_of_status_is_refused(status: Manifest, field: str) -> None:
    (fault,) = refused_pod_status(stored_pod(pod()), **status)
    assert fault.startswith(f"{field}: Invalid value: ")


def test_status_write_keeps_spec_and_owners() -> None:
    # BA 4
    old = stored_pod(pod())
    old["metadata"]["ownerReferences"] = [{"uid": "u"}]
    new = changed(old, nodeName="elsewhere")
    new["metadata"] |= {"ownerReferences": [], "finalizers": ["a.io/x"]}
    PODS.prepare_status(new, old)
    assert new["spec"] == old["spec"]
    assert new["metadata"]["ownerReferences"] == [{"uid": "u"}]
    assert new["metadata"]["finalizers"] == ["a.io/x"]


def test_pod_name_that_is_no_host_name_is_warned_about() -> None:
    dotted = stored_pod(pod())
    dotted["metadata"]["name"] = "a.b"
    assert PODS.warnings(stored_pod(pod()), None) == []
    (warning,) = PODS.warnings(dotted, None)
    assert warning.startswith("metadata.name: this is used in the Pod's hostname")
