from copy import deepcopy

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.manifests import PODS, changed, pod, refused_pod_status, stored_pod


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
        "containerStatuses": [{
            "name": "c", "state": {}, "lastState": {}, "ready": False, "restartCount": 0, "image": "", "imageID": "",
        }],
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "hostIPs": [{"ip": "10.0.0.2"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "field"),
    [
        pytest.param({"conditions": [{"type": "a b", "status": "True"}]}, "status.conditions[0].Type", id="condition"),
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
