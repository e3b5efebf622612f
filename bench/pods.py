"""Pods as a cluster has them: 4.5 KB each, alike in what siblings share, different in what they do not."""

import json
from collections.abc import Iterator
from typing import Any


def pod(number: int, version: int, *, siblings: int = 100) -> dict[str, Any]:
    """Return one pod of a Job of `siblings` pods, with its managed fields, as a server sends it."""
    job, place = divmod(number, siblings)
    uid = f"00000000-0000-4000-8000-{number:012x}"
    job_uid = f"11111111-0000-4000-8000-{job:012x}"
    labels = {
        "batch.kubernetes.io/controller-uid": job_uid,
        "batch.kubernetes.io/job-name": f"job-{job}",
        "controller-uid": job_uid,
        "job-name": f"job-{job}",
    }
    moment = f"2026-01-01T{place % 24:02}:{place % 60:02}:00Z"
    return {
        "metadata": {
            "name": f"job-{job}-{number:05x}",
            "generateName": f"job-{job}-",
            "namespace": "default",
            "uid": uid,
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": moment,
            "labels": labels,
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1", "kind": "Job", "name": f"job-{job}", "uid": job_uid,
                    "controller": True, "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [_managed("kcr", labels), _managed("kubelet", labels)],
        },
        "spec": _spec(number),
        "status": _status(moment),
    }  # fmt: skip


def _managed(manager: str, labels: dict[str, str]) -> dict[str, Any]:
    owned: dict[str, Any] = {
        f"f:{name}": {} for name in (*labels, "terminationMessagePath", "terminationMessagePolicy", "resources")
    }
    return {
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": owned, "f:spec": {"f:containers": owned}},
    }  # fmt: skip


def _spec(number: int) -> dict[str, Any]:
    mount = {"name": "kube-api-access", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    return {
        "containers": [
            {
                "name": "main", "image": "registry.example/team/worker:1.2.3",
                "command": ["python3", "-m", "worker"], "args": ["--queue", "default", "--verbose"],
                "env": [{"name": f"SETTING_{n}", "value": f"value of setting {n}"} for n in range(8)],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "volumeMounts": [mount], "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
            }
        ],
        "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": []}}],
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default", "nodeName": f"node-{number % 50}", "securityContext": {},
        "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": True,
        "tolerations": [
            {"key": f"node.kubernetes.io/{word}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for word in ("not-ready", "unreachable")
        ],
    }  # fmt: skip


def _status(moment: str) -> dict[str, Any]:
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.2.3", "startTime": moment, "qosClass": "Burstable",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": moment} for kind in conditions
        ],
        "containerStatuses": [
            {
                "name": "main", "state": {"running": {"startedAt": moment}}, "lastState": {}, "ready": True,
                "restartCount": 0, "image": "registry.example/team/worker:1.2.3", "imageID": "sha256:" + "0" * 64,
                "containerID": "containerd://" + "0" * 64, "started": True,
            }
        ],
    }  # fmt: skip


def objects(count: int) -> list[bytes]:
    """Return many pods as JSON, without kind and apiVersion, as a list has them."""
    return [_encode(pod(number, number + 1)) for number in range(count)]


def events(kind: str, bodies: list[bytes]) -> Iterator[bytes]:
    """Yield watch lines of one type about the pods."""
    head = f'{{"type":"{kind}","object":{{"kind":"Pod","apiVersion":"v1",'.encode()
    return (head + body[1:] + b"}" for body in bodies)


def end_of_initial_events(version: int) -> bytes:
    """Return the bookmark that ends the initial state of a stream."""
    metadata = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return _encode({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}})


def _encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
