"""Protobuf bodies, which kubectl and client-go send for built-in kinds (AS 6.3); messages as Go writes them.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf; k8s.io/api/*/v1/generated.proto.
"""

from typing import Any

import pytest

from tests.kit.api import Api, config_map
from tests.kit.protobuf import PROTOBUF, body, entry, message

pytestmark = pytest.mark.kcr_virtual
CORE = "/api/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"


def metadata(name: str, *more: tuple[int, int | str | bytes]) -> bytes:
    """Metadata with all that Go writes though it is empty."""
    return message((1, name), (2, ""), (3, ""), (4, ""), (5, ""), (6, ""), (7, 0), (8, b""), *more)


def job(*spec: tuple[int, int | str | bytes]) -> bytes:
    """What `kubectl create job x --image=busybox -- sh -c true` sends, and more of the spec."""
    container = message((1, "x"), (2, "busybox"), (3, "sh"), (3, "-c"), (3, "true"), (5, ""), (8, b""), (16, 0))
    pod = message((2, container), (3, "Never"), (6, ""), (8, ""), (11, 0), (19, ""))
    template = message((1, metadata("")), (2, pod))
    return body("batch/v1", "Job", message((1, metadata("x")), (2, message((6, template), *spec)), (3, b"\x20\x00")))


def with_pod(*pod: tuple[int, int | str | bytes]) -> tuple[int, bytes]:
    """The template of a Job's spec, with more in its pod."""
    return 6, message((2, message((3, "Never"), *pod)))


async def post(api: Api, path: str, data: bytes) -> Any:
    return await api.call("POST", f"{path}?fieldValidation=Strict", data, content_type=PROTOBUF)


async def test_job_is_what_its_json_would_be(api: Api) -> None:
    made = (await post(api, JOBS, job())).body
    await api.delete(f"{JOBS}/x", {"propagationPolicy": "Background"})
    container = {"name": "x", "image": "busybox", "command": ["sh", "-c", "true"], "resources": {}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    same = await api.post(JOBS, {"metadata": {"name": "x"}, "spec": spec})
    for one in (made, same):
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert labels.pop("batch.kubernetes.io/controller-uid") == labels.pop("controller-uid")
        one["spec"].pop("selector")
    assert made["spec"] == same["spec"]


async def test_zeros_of_pointers_are_meant(api: Api) -> None:
    spec = (await post(api, JOBS, job((1, 0), (7, 0), (10, 1)))).body["spec"]
    assert (spec["parallelism"], spec["backoffLimit"], spec["suspend"]) == (0, 0, True)


async def test_negative_numbers_arrive_as_such(api: Api) -> None:
    reply = await post(api, JOBS, job((1, -1)))
    assert (reply.status, reply.body["details"]["causes"][0]["field"]) == (422, "spec.parallelism")


async def test_cron_job_is_read_with_its_template(api: Api) -> None:
    # What `kubectl create cronjob` sends, and all the rest of the spec.
    container = message((1, "x"), (2, "busybox"), (3, "true"))
    template = message((1, metadata("")), (2, message((6, message((2, message((2, container), (3, "Never"))))))))
    spec = message((1, "@hourly"), (2, 5), (3, "Forbid"), (4, 1), (5, template), (6, 0), (7, 2), (8, "Europe/Berlin"))
    data = body("batch/v1", "CronJob", message((1, metadata("x")), (2, spec), (3, b"")))
    made = (await post(api, CRON_JOBS, data)).body["spec"]
    pod = made.pop("jobTemplate")["spec"]["template"]["spec"]
    assert (pod["containers"][0]["command"], pod["restartPolicy"]) == (["true"], "Never")
    assert made == {
        "schedule": "@hourly", "startingDeadlineSeconds": 5, "concurrencyPolicy": "Forbid", "suspend": True,
        "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 2, "timeZone": "Europe/Berlin",
    }  # fmt: skip
    active = message((1, "Job"), (2, "default"), (3, "x-1"), (4, "u"), (5, "batch/v1"), (6, ""), (7, ""))
    status = message((1, active), (4, message((1, 5))))
    told = body("batch/v1", "CronJob", message((1, metadata("x")), (2, spec), (3, status)))
    reply = await api.call("PUT", f"{CRON_JOBS}/x/status", told, content_type=PROTOBUF)
    assert reply.body["status"] == {
        "active": [{"kind": "Job", "namespace": "default", "name": "x-1", "uid": "u", "apiVersion": "batch/v1"}],
        "lastScheduleTime": "1970-01-01T00:00:05Z",
    }


async def test_status_that_a_client_writes_is_read(api: Api) -> None:
    # What client-go's UpdateStatus sends
    made = (await post(api, JOBS, job())).body["metadata"]
    known = metadata("x", (5, made["uid"]), (6, made["resourceVersion"]))
    condition = message((1, "Suspended"), (2, "True"), (3, b""), (4, message((1, 5))), (5, ""), (6, "why"))
    uncounted = (8, message((1, "a"), (2, "b")))
    status = message((1, condition), (2, message((1, 7), (2, 0))), (4, 2), (5, 0), (6, 0), (7, ""), uncounted, (9, 0))
    data = body("batch/v1", "Job", message((1, known), (3, status)))
    reply = await api.call("PUT", f"{JOBS}/x/status", data, content_type=PROTOBUF)
    assert reply.body["status"] == {
        "conditions": [
            {"type": "Suspended", "status": "True", "lastProbeTime": None,
             "lastTransitionTime": "1970-01-01T00:00:05Z", "message": "why"},
        ],
        "startTime": "1970-01-01T00:00:07Z", "active": 2, "ready": 0,
        "uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b"]},
    }  # fmt: skip


async def test_volumes_and_probes_lie_flat_in_json(api: Api) -> None:
    config = message((1, message((1, "settings"))), (3, 256))
    volume = message((1, "v"), (2, message((19, config))))
    ports = (message((1, 0), (2, 80), (3, "")), message((1, 1), (2, 0), (3, "http")))
    probes = [message((1, message((2, message((1, "/"), (2, port), (4, "HTTP"))))), (2, 7)) for port in ports]
    variable = message((1, "A"), (2, ""), (3, message((3, message((1, message((1, "settings"))), (2, "a"))))))
    container = message((1, "x"), (2, "busybox"), (7, variable), (10, probes[0]), (11, probes[1]))
    pod = (await post(api, JOBS, job(with_pod((1, volume), (2, container))))).body["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "v", "configMap": {"name": "settings", "defaultMode": 256}}]
    (made,) = pod["containers"]
    assert made["env"] == [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]
    assert [made[kind]["httpGet"]["port"] for kind in ("livenessProbe", "readinessProbe")] == [80, "http"]
    assert made["livenessProbe"]["initialDelaySeconds"] == 7


@pytest.mark.parametrize(
    ("path", "kind", "fields", "kept"),
    [
        pytest.param("configmaps", "ConfigMap", [(2, entry("a", "1")), (2, entry("b", ""))],
                     {"data": {"a": "1", "b": ""}}, id="config-map"),
        pytest.param("configmaps", "ConfigMap", [(3, entry("a", b"\x00\xff"))],
                     {"binaryData": {"a": "AP8="}}, id="bytes"),
        pytest.param("secrets", "Secret", [(2, entry("p", b"q")), (3, "")],
                     {"data": {"p": "cQ=="}, "type": "Opaque"}, id="secret"),
        pytest.param("serviceaccounts", "ServiceAccount", [(4, 0)],
                     {"automountServiceAccountToken": False}, id="service-account"),
    ],
)  # fmt: skip
async def test_core_kinds_are_read(api: Api, path: str, kind: str, fields: Any, kept: Any) -> None:
    reply = await post(api, f"{CORE}/{path}", body("v1", kind, message((1, metadata("a")), *fields)))
    assert reply.status == 201, reply.body
    assert {member: reply.body[member] for member in kept} == kept


def pod_template() -> bytes:
    labelled = metadata("") + message((11, entry("a", "b")))
    return message((1, labelled), (2, message((2, message((1, "x"), (2, "busybox"))))))


@pytest.mark.parametrize(
    ("path", "kind", "fields", "kept"),
    [
        pytest.param(
            "apps/v1 deployments", "Deployment",
            [(2, message((1, 3), (2, message((1, entry("a", "b")))), (3, pod_template()), (4, b""), (5, 0), (7, 0)))],
            {"replicas": 3, "selector": {"matchLabels": {"a": "b"}},
             "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
             "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
             "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "containers": [{"name": "x", "image": "busybox", "resources": {}, "terminationMessagePolicy": "File",
                                "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "Always"}],
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "securityContext": {}, "schedulerName": "default-scheduler"}}},
            id="deployment",
        ),
        pytest.param(
            "v1 services", "Service",
            [(2, message((1, message((1, ""), (3, 80), (4, message((1, 1), (2, 0), (3, "http"))), (5, 0))),
                         (2, entry("a", "b")), (3, ""), (4, "ClusterIP"), (7, ""), (13, 0))), (3, message((1, b"")))],
            {
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": "http"}],
                "selector": {"a": "b"}, "type": "ClusterIP", "clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1"],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
            },
            id="service",
        ),
        pytest.param(
            "networking.k8s.io/v1 ingresses", "Ingress",
            [(2, message((3, message((1, "a.io"), (2, message((1, message((1, message((1, "/"), (3, "Prefix"),
                (2, message((4, message((1, "web"), (2, message((1, ""), (2, 80)))))))))))))))))],
            {"rules": [{"host": "a.io", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {
                "service": {"name": "web", "port": {"number": 80}}}}]}}]},
            id="ingress",
        ),
        pytest.param(
            "policy/v1 poddisruptionbudgets", "PodDisruptionBudget",
            [(2, message((1, message((1, 1), (2, 0), (3, "50%"))), (2, message((1, entry("a", "b"))))))],
            {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}, id="disruption-budget",
        ),
        pytest.param(
            "coordination.k8s.io/v1 leases", "Lease", [(2, message((1, "me"), (3, message((1, 5), (2, 7_000)))))],
            {"holderIdentity": "me", "acquireTime": "1970-01-01T00:00:05.000007Z"}, id="lease",
        ),
    ],
)  # fmt: skip
async def test_kinds_of_all_groups_are_read(api: Api, path: str, kind: str, fields: Any, kept: Any) -> None:
    # What `kubectl create deployment`, `create service` and so on send; zeros that Go leaves out of JSON are dropped.
    version, plural = path.split()
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    raw = message((1, metadata("a")), *fields)
    reply = await post(api, f"{root}/namespaces/default/{plural}", body(version, kind, raw))
    assert (reply.status, reply.body.get("spec")) == (201, kept), reply.body


async def test_roles_are_read(api: Api) -> None:
    raw = message((1, metadata("a")), (2, message((1, "get"), (1, "list"), (2, ""), (3, "pods"))))
    reply = await post(
        api,
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        body("rbac.authorization.k8s.io/v1", "Role", raw),
    )
    assert reply.body["rules"] == [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]


async def test_priority_class_is_read(api: Api) -> None:
    raw = message((1, metadata("a")), (2, -5), (3, 0), (4, ""))
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    made = (await post(api, path, body("scheduling.k8s.io/v1", "PriorityClass", raw))).body
    assert (made["value"], made.keys() & {"globalDefault", "description"}) == (-5, set())


async def test_managed_fields_are_read_and_dropped(api: Api) -> None:
    entry_of_manager = message((1, "kubectl"), (2, "Update"), (3, "v1"), (4, message((1, 5))), (7, message((1, "{}"))))
    raw = message((1, metadata("a", (17, entry_of_manager))), (2, entry("a", "1")))
    reply = await post(api, f"{CORE}/configmaps", body("v1", "ConfigMap", raw))
    assert (reply.status, "managedFields" in reply.body["metadata"]) == (201, False)


async def test_namespace_and_metadata_are_read(api: Api) -> None:
    meta = metadata("room", (11, entry("l", "1")), (12, entry("n", "2")), (14, "a.io/b"))
    raw = message((1, meta), (2, b""), (3, message((1, ""))))
    made = (await post(api, "/api/v1/namespaces", body("v1", "Namespace", raw))).body["metadata"]
    assert (made["labels"]["l"], made["annotations"], made["finalizers"]) == ("1", {"n": "2"}, ["a.io/b"])


async def test_delete_options_are_read(api: Api) -> None:
    await api.post(f"{CORE}/configmaps", config_map("a"))
    options = body("v1", "DeleteOptions", message((2, message((1, "zzz"))), (4, "Background")))
    reply = await api.call("DELETE", f"{CORE}/configmaps/a", options, content_type=PROTOBUF)
    assert (reply.status, reply.body["reason"]) == (409, "Conflict")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(body("v1", "Gadget", b""), 415, id="unknown-kind"),
        pytest.param(job(), 400, id="another-kind"),
        pytest.param(body("v1", "ConfigMap", b"\x0a\x7f"), 400, id="cut-off"),
        pytest.param(body("v1", "ConfigMap", b"\x0b"), 400, id="group"),
        pytest.param(body("v1", "ConfigMap", message((1, 5))), 400, id="number-for-message"),
        pytest.param(body("v1", "ConfigMap", message((4, "x"))), 400, id="text-for-flag"),
        pytest.param(body("v1", "ConfigMap", b"\xff" * 11), 400, id="endless-number"),
        pytest.param(body("v1", "ConfigMap", message((1, message((8, message((1, 1 << 62))))))), 400, id="no-moment"),
        pytest.param(b"{}", 400, id="json"),
    ],
)
async def test_what_cannot_be_read_is_refused(api: Api, data: bytes, code: int) -> None:
    reply = await post(api, f"{CORE}/configmaps", data)
    assert (reply.status, reply.body["reason"]) == (code, "BadRequest" if code == 400 else "UnsupportedMediaType")


async def test_fields_of_newer_clients_are_ignored(api: Api) -> None:
    # A number that no version has, in the object and in a message that JSON shows flat.
    made = await post(api, f"{CORE}/configmaps", body("v1", "ConfigMap", message((1, metadata("a")), (99, "new"))))
    assert (made.status, made.body["metadata"]["name"], "data" in made.body) == (201, "a", False)
    spec = with_pod((1, message((1, "v"), (2, message((2, b""), (99, b""))))), (2, message((1, "x"), (2, "busybox"))))
    pod = (await post(api, JOBS, job(spec))).body["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "v", "emptyDir": {}}]


async def test_refused_type_is_named_in_the_log(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    assert (await post(api, f"{CORE}/configmaps", body("v1", "Gadget", b""))).status == 415
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.getMessage() == "protobuf body refused: the schema has no numbers for kind 'Gadget' of 'v1'"


async def test_times_before_the_year_1000_are_read(api: Api) -> None:
    # What Go sends of a MicroTime that is zero but set, plus two seconds.
    spec = message((1, "h"), (2, 1), (4, message((1, -62135596798))))
    data = body("coordination.k8s.io/v1", "Lease", message((1, metadata("l")), (2, spec)))
    reply = await post(api, "/apis/coordination.k8s.io/v1/namespaces/default/leases", data)
    assert (reply.status, reply.body["spec"]["renewTime"]) == (201, "0001-01-01T00:00:02.000000Z")


@pytest.mark.parametrize(
    ("resource", "kind", "spec", "status"),
    [
        pytest.param(
            "authorization.k8s.io/v1/selfsubjectaccessreviews", "SelfSubjectAccessReview",
            message((1, message((1, "default"), (2, "list"), (5, "pods")))), {"allowed": True}, id="may-i",
        ),
        pytest.param(
            "authorization.k8s.io/v1/selfsubjectaccessreviews", "SelfSubjectAccessReview",
            message((2, message((1, "/healthz"), (2, "get")))), {"allowed": True}, id="may-i-elsewhere",
        ),
        pytest.param(
            "authorization.k8s.io/v1/selfsubjectrulesreviews", "SelfSubjectRulesReview",
            message((1, "default")), {"incomplete": False}, id="what-may-i",
        ),
    ],
)  # fmt: skip
async def test_admin_may_do_everything(api: Api, resource: str, kind: str, spec: bytes, status: Any) -> None:
    # AS 23.5
    version = resource.rpartition("/")[0]
    reply = await post(api, f"/apis/{resource}", body(version, kind, message((1, metadata("")), (2, spec), (3, b""))))
    assert (reply.status, reply.body["kind"], reply.body["apiVersion"]) == (201, kind, version)
    assert bool(reply.body["spec"]) is (kind != "SelfSubjectRulesReview")
    assert {member: reply.body["status"][member] for member in status} == status


async def test_admin_is_told_who_asks(api: Api) -> None:
    path, kind = "/apis/authentication.k8s.io/v1/selfsubjectreviews", "SelfSubjectReview"
    for data, form in ((body("authentication.k8s.io/v1", kind, message((1, metadata("")))), PROTOBUF), (b"{}", "")):
        user = (await api.call("POST", path, data, content_type=form)).body["status"]["userInfo"]
        assert (user["username"], user["groups"]) == ("system:admin", ["system:masters", "system:authenticated"])


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param({}, "exactly one of nonResourceAttributes or resourceAttributes must be specified", id="nothing"),
        pytest.param(
            {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get"}},
            "cannot be specified in combination with resourceAttributes",
            id="both",
        ),
    ],
)
async def test_review_asks_for_exactly_one_thing(api: Api, spec: Any, why: str) -> None:
    reply = await api.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": spec})
    assert (reply.status, reply.body["details"]["group"]) == (422, "authorization.k8s.io")
    assert why in reply.body["message"]
