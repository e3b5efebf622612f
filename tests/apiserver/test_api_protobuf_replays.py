"""Bodies as Go's controllers send them: with the zeros that gogo-protobuf always writes, and what comes back.

The Accept header is that of kube-controller-manager and kube-scheduler with default flags.

Source: k8s.io/client-go/tools/leaderelection/resourcelock/leaselock.go, tools/record/event.go;
kubernetes/pkg/controller/controller_utils.go (GetPodFromTemplate), pkg/scheduler/framework/plugins/defaultbinder;
generated.pb.go of each API group.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.kit.api import Api, Reply, pod
from tests.kit.protobuf import PROTOBUF, body, entry, message

pytestmark = pytest.mark.kcr_virtual
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
ACCEPT = f"{PROTOBUF}, */*"
Field = tuple[int, int | str | bytes]
# 2026-01-01 and some microseconds; as a Time, and as a MicroTime.
TIME, MICRO_TIME = message((1, 1_767_225_600), (2, 0)), message((1, 1_767_225_600), (2, 7_000))


async def send(api: Api, method: str, target: str, data: bytes = b"") -> Reply:
    return await api.call(method, target, data, content_type=PROTOBUF, accept=ACCEPT)


def metadata(
    name: str = "", namespace: str = "", *more: Field, generate: str = "", uid: str = "", version: str = ""
) -> bytes:
    """ObjectMeta: what it holds by value is always written."""
    return message(
        (1, name), (2, generate), (3, namespace), (4, ""), (5, uid), (6, version), (7, 0), (8, b""), *more
    )  # fmt: skip


def reference(kind: str, name: str, api_version: str = "v1", uid: str = "") -> bytes:
    """ObjectReference."""
    return message((1, kind), (2, "default"), (3, name), (4, uid), (5, api_version), (6, ""), (7, ""))


def lease(holder: str, transitions: int, **known: str) -> bytes:
    """A Lease; all of its spec are pointers."""
    spec = message((1, holder), (2, 15), (3, MICRO_TIME), (4, MICRO_TIME), (5, transitions))
    raw = message((1, metadata("kube-controller-manager", "kube-system", **known)), (2, spec))
    return body("coordination.k8s.io/v1", "Lease", raw)


async def test_leader_is_elected(api: Api) -> None:
    target = f"{LEASES}/kube-controller-manager"
    assert (await send(api, "GET", target)).status == 404
    made = await send(api, "POST", LEASES, lease("a_1", 0))
    spec = {"holderIdentity": "a_1", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-01-01T00:00:00.000007Z", "renewTime": "2026-01-01T00:00:00.000007Z"}  # fmt: skip
    assert (made.status, made.body["spec"]) == (201, spec)
    known = {"uid": made.body["metadata"]["uid"], "version": made.body["metadata"]["resourceVersion"]}
    taken = await send(api, "PUT", target, lease("b_2", 1, **known))
    assert (taken.status, taken.body["spec"]) == (200, {**spec, "holderIdentity": "b_2", "leaseTransitions": 1})
    late = await send(api, "PUT", target, lease("a_1", 2, **known))
    assert (late.status, late.body["reason"]) == (409, "Conflict")
    assert (await send(api, "POST", LEASES, lease("a_1", 0))).status == 409


def pod_spec() -> bytes:
    """PodSpec as a controller copies it from a template that has been through the server's defaults."""
    quantity = message((1, "cpu"), (2, message((1, "1"))))
    resources = message((1, quantity), (2, quantity))
    mount = message((1, "config"), (2, 0), (3, "/etc/x"), (4, ""), (6, ""))
    check = message(
        (1, message((2, message((1, "/healthz"), (2, message((1, 0), (2, 80), (3, ""))), (3, ""), (4, "HTTP")))))
    )
    probe = check + message((2, 0), (3, 1), (4, 10), (5, 1), (6, 3))
    port = message((1, "web"), (2, 0), (3, 80), (4, "TCP"), (5, ""))
    container = message(
        (1, "c"), (2, "busybox"), (3, "sh"), (5, ""), (6, port), (8, resources), (9, mount), (10, probe),
        (13, "/dev/termination-log"), (14, "Always"), (16, 0), (17, 0), (18, 0), (20, "File"),
    )  # fmt: skip
    volume = message((1, "config"), (2, message((19, message((1, message((1, "settings"))), (3, 420))))))
    return message(
        (1, volume), (2, container), (3, "Always"), (4, 30), (6, "ClusterFirst"), (8, ""), (9, ""), (10, ""), (11, 0),
        (12, 0), (13, 0), (14, b""), (16, ""), (17, ""), (19, "default-scheduler"), (24, ""),
    )  # fmt: skip


POD_SPEC: Mapping[str, Any] = {
    "volumes": [{"name": "config", "configMap": {"name": "settings", "defaultMode": 420}}],
    "containers": [{
        "name": "c", "image": "busybox", "command": ["sh"],
        "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/x"}],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": 80, "scheme": "HTTP"},
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
        },
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }],
    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
    "securityContext": {}, "schedulerName": "default-scheduler",
}  # fmt: skip
POD_STATUS = message((1, ""), (3, ""), (4, ""), (5, ""), (6, ""), (9, ""), (11, ""), (14, ""), (17, 0))
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}


def owner(kind: str, api_version: str) -> Field:
    return 13, message((1, kind), (3, "web"), (4, "u"), (5, api_version), (6, 1), (7, 1))


async def test_pod_of_a_replica_set_is_made(api: Api) -> None:
    meta = metadata("", "", (11, entry("app", "web")), owner("ReplicaSet", "apps/v1"), generate="web-")
    data = body("v1", "Pod", message((1, meta), (2, pod_spec()), (3, POD_STATUS)))
    made = (await send(api, "POST", f"{CORE}/pods", data)).body
    assert made["metadata"]["name"].startswith("web-")
    assert made["metadata"]["ownerReferences"] == [{**OWNER, "blockOwnerDeletion": True}]
    assert {name: value for name, value in made["spec"].items() if name in POD_SPEC} == POD_SPEC
    assert made["status"]["phase"] == "Pending"


async def test_pod_of_a_job_is_made(api: Api) -> None:
    labels = [(11, entry("batch.kubernetes.io/job-name", "web"))]
    finalizer = (14, "batch.kubernetes.io/job-tracking")
    meta = metadata("", "", *labels, owner("Job", "batch/v1"), finalizer, generate="web-")
    container = message(
        (1, "c"), (2, "busybox"), (5, ""), (8, b""), (13, ""), (14, ""), (16, 0), (17, 0), (18, 0), (20, "")
    )
    spec = message((2, container), (3, "Never"), (6, ""), (8, ""), (9, ""), (10, ""), (11, 0), (12, 0), (13, 0))
    made = await send(api, "POST", f"{CORE}/pods", body("v1", "Pod", message((1, meta), (2, spec), (3, POD_STATUS))))
    assert (made.status, made.body["metadata"]["finalizers"]) == (201, ["batch.kubernetes.io/job-tracking"])
    assert made.body["spec"]["restartPolicy"] == "Never"


async def test_event_is_recorded(api: Api) -> None:
    source = message((1, "replicaset-controller"), (2, ""))
    raw = message(
        (1, metadata("web.17f", "default")), (2, reference("ReplicaSet", "web", "apps/v1", "u")),
        (3, "SuccessfulCreate"), (4, "Created pod: web-x"), (5, source), (6, TIME), (7, TIME), (8, 1), (9, "Normal"),
        (10, b""), (12, ""), (14, "replicaset-controller"), (15, ""),
    )  # fmt: skip
    made = (await send(api, "POST", f"{CORE}/events", body("v1", "Event", raw))).body
    made.pop("metadata")
    assert made == {
        "kind": "Event", "apiVersion": "v1",
        "involvedObject": {"kind": "ReplicaSet", "namespace": "default", "name": "web", "uid": "u",
                           "apiVersion": "apps/v1"},
        "reason": "SuccessfulCreate", "message": "Created pod: web-x", "source": {"component": "replicaset-controller"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1, "type": "Normal",
        "eventTime": None, "reportingComponent": "replicaset-controller", "reportingInstance": "",
    }  # fmt: skip


async def test_pod_is_bound_and_evicted(api: Api) -> None:
    uid = (await api.post(f"{CORE}/pods", pod("p")))["metadata"]["uid"]
    target = message((1, "Node"), (2, ""), (3, "node-1"), (4, ""), (5, ""), (6, ""), (7, ""))
    binding = body("v1", "Binding", message((1, metadata("p", "default", uid=uid)), (2, target)))
    bound = await send(api, "POST", f"{CORE}/pods/p/binding", binding)
    assert (bound.status, bound.body["status"]) == (201, "Success")
    assert (await api.get(f"{CORE}/pods/p"))["spec"]["nodeName"] == "node-1"
    again = await send(api, "POST", f"{CORE}/pods/p/binding", binding)
    assert (again.status, again.body["reason"]) == (409, "Conflict")
    options = message((1, 0), (2, message((1, uid))))
    eviction = body("policy/v1", "Eviction", message((1, metadata("p", "default")), (2, options)))
    assert (await send(api, "POST", f"{CORE}/pods/p/eviction", eviction)).status == 201
    assert (await send(api, "GET", f"{CORE}/pods/p")).status == 404


def replica_set(status: bytes, **known: str) -> bytes:
    selector = message((1, entry("app", "web")))
    template = message((1, metadata("", "", (11, entry("app", "web")))), (2, pod_spec()))
    spec = message((1, 0), (2, selector), (3, template), (4, 0))
    return body("apps/v1", "ReplicaSet", message((1, metadata("web", "default", **known)), (2, spec), (3, status)))


async def test_replica_set_of_a_deployment_is_made_and_its_status_written(api: Api) -> None:
    made = (
        await send(api, "POST", f"{APPS}/replicasets", replica_set(message((1, 0), (2, 0), (3, 0), (4, 0), (5, 0))))
    ).body
    assert (made["spec"]["replicas"], made["spec"]["template"]["spec"]) == (0, POD_SPEC)
    known = {"uid": made["metadata"]["uid"], "version": made["metadata"]["resourceVersion"]}
    told = replica_set(message((1, 2), (2, 2), (3, 1), (4, 0), (5, 0), (7, 0)), **known)
    written = await send(api, "PUT", f"{APPS}/replicasets/web/status", told)
    assert written.body["status"] == {
        "replicas": 2, "fullyLabeledReplicas": 2, "observedGeneration": 1, "terminatingReplicas": 0
    }  # fmt: skip


async def test_scale_is_written(api: Api) -> None:
    await send(api, "POST", f"{APPS}/replicasets", replica_set(b""))
    scale = message((1, metadata("web", "default")), (2, message((1, 3))), (3, message((1, 0), (2, ""))))
    written = await send(api, "PUT", f"{APPS}/replicasets/web/scale", body("autoscaling/v1", "Scale", scale))
    assert (written.status, written.body["spec"]) == (200, {"replicas": 3})


async def test_endpoints_of_a_service_are_made(api: Api) -> None:
    point = message(
        (1, "10.0.0.1"), (2, message((1, 1), (2, 1), (3, 0))), (4, reference("Pod", "p")), (6, "node-1"), (7, "z")
    )
    port = message((1, ""), (2, "TCP"), (3, 80))
    raw = message((1, metadata("", "default", generate="web-")), (2, point), (3, port), (4, "IPv4"))
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    made = (await send(api, "POST", path, body("discovery.k8s.io/v1", "EndpointSlice", raw))).body
    assert (made["addressType"], made["ports"]) == ("IPv4", [{"name": "", "protocol": "TCP", "port": 80}])
    assert made["endpoints"] == [{
        "addresses": ["10.0.0.1"], "conditions": {"ready": True, "serving": True, "terminating": False},
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "p", "apiVersion": "v1"}, "nodeName": "node-1",
        "zone": "z",
    }]  # fmt: skip


async def test_collection_of_a_namespace_is_deleted(api: Api) -> None:
    # The namespace controller's metadata client.
    await api.post(f"{CORE}/pods", pod("p"))
    options = body("meta.k8s.io/v1", "DeleteOptions", message((1, 0), (4, "Background")))
    assert (await send(api, "DELETE", f"{CORE}/pods", options)).status == 200
    assert (await api.get(f"{CORE}/pods"))["items"] == []
