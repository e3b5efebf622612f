from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.kinds.strategy import UndecodableError
from kcr_devcluster.apiserver.kinds.views.legacy import job_from_hub, job_to_hub
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.invalid_manifests import mutated
from tests.kit.manifests import JOBS, PODS, job, pod, prepared, stored, stored_pod

CONTAINER = {
    "name": "c",
    "image": "i",
    "args": ["a"],
    "ports": [{"name": "http", "containerPort": 80}],
    "env": [{"name": "A", "value": "b"}, {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1", "memory": "1Gi"}},
    "livenessProbe": {"httpGet": {"port": 80}},
    "startupProbe": {"grpc": {"port": 1}},
    "lifecycle": {"preStop": {"httpGet": {"port": "http"}}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
POD: Manifest = {
    "containers": [CONTAINER],
    "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}],
    "volumes": [
        {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "w", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "x", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ],
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "schedulingGates": [{"name": "a.io/x"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        },
        "podAffinity": {},
    },
}
FULL_JOB = job(
    labels={"a": "b"},
    pod=POD,
    completionMode="Indexed",
    completions=5,
    backoffLimitPerIndex=1,
    suspend=True,
    managedBy="a.io/b",
    podFailurePolicy={
        "rules": [
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}},
            {"action": "Ignore", "onPodConditions": [{"type": "Ready"}]},
        ]
    },
    successPolicy={"rules": [{"succeededIndexes": "0-2", "succeededCount": 1}]},
)
JOB_STATUS: Manifest = {
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-01T00:00:00Z",
    "conditions": [{"type": "Suspended", "status": "True"}],
    "active": 1,
    "ready": 1,
    "completedIndexes": "0",
    "failedIndexes": "1",
    "uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b"]},
}
POD_STATUS: Manifest = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}],
    "podIPs": [{"ip": "10.0.0.1"}],
    "qosClass": "Burstable",
}


@given(st.data())
def test_any_spec_is_judged_and_none_breaks_the_server(data: st.DataObject) -> None:
    old = stored(FULL_JOB)
    try:
        new = mutated(data, FULL_JOB, "spec")
        JOBS.default(new)
        JOBS.prepare_create(new)
        JOBS.validate(new)
        JOBS.warnings(new, None)
        JOBS.validate_update(new, old)
    except UndecodableError as error:
        assert error.code == 400


@given(st.data())
def test_any_old_job_is_taken_or_refused(data: st.DataObject) -> None:
    try:
        taken = mutated(data, {**FULL_JOB, "apiVersion": "extensions/v1beta1"}, "spec")
        job_to_hub(taken)
        JOBS.default(taken)
        job_from_hub(taken)
    except UndecodableError as error:
        assert error.code == 400


@given(st.data())
def test_any_status_is_judged_and_none_breaks_the_server(data: st.DataObject) -> None:
    old = stored(FULL_JOB, JOB_STATUS)
    try:
        new = mutated(data, {**old, "status": JOB_STATUS}, "status")
        JOBS.default(new)
        JOBS.prepare_status(new, old)
        JOBS.validate_status(new, old)
    except UndecodableError as error:
        assert error.code == 400


@given(st.data(), st.sampled_from(["spec", "status"]))
def test_any_pod_is_judged_and_none_breaks_the_server(data: st.DataObject, part: str) -> None:
    old = stored_pod(pod(**POD))
    old["status"] |= deepcopy(POD_STATUS)
    try:
        new = mutated(data, old, part)
        PODS.default(new)
        created = deepcopy(new)
        PODS.prepare_create(created)
        PODS.validate(created)
        PODS.warnings(created, None)
        PODS.validate_update(new, old)
        PODS.validate_status(new, old)
    except UndecodableError as error:
        assert error.code == 400


def test_job_posted_again_as_downloaded_is_refused() -> None:
    # BA 5: one error per stale label, and the selector
    again = deepcopy(stored(job()))
    again["metadata"] = {"name": "pi", "namespace": "default", "uid": "another"}
    assert [fault.field for fault in JOBS.validate(prepared(again))] == [
        "spec.template.metadata.labels[controller-uid]",
        "spec.template.metadata.labels[batch.kubernetes.io/controller-uid]",
        "spec.selector",
    ]
