"""Quotas (api-server §16.6).

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go;
kubernetes/pkg/apis/core/validation/validation.go, ValidateResourceQuota.
"""

from random import Random
from typing import Any

import pytest

from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import TABLE, Api, config_map, job, pod
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, spec_schema, version, widget
from tests.kit.protobuf import PROTOBUF, body, message

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.collects]
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def quota(name: str = "q", *, spec: dict[str, Any] | None = None, **hard: str) -> dict[str, Any]:
    named = {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}
    return {"metadata": {"name": name}, "spec": {"hard": named, **(spec or {})}}


def hungry(name: str, cpu: str, **metadata: Any) -> dict[str, Any]:
    made = pod(name, **metadata)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


async def test_quotas_and_budgets_may_be_left_to_other_controllers(kcr_clock: VirtualClock) -> None:
    """As kube-controller-manager runs them: two writers of one status conflict."""
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None, quota_and_disruption=False) as cluster:
        api = Api(cluster.server)
        await api.post(QUOTAS, quota(pods="1"))
        budget = await api.post(BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 0, "selector": {}}})
        await api.post(PODS, pod("a"))
        await kcr_clock.advance(600)
        assert (await api.get(f"{QUOTAS}/q"))["status"] == {}
        assert await api.get(f"{BUDGETS}/b") == budget
        assert "exceeded quota" in await refusal(api, PODS, pod("b"))


async def refusal(api: Api, target: str, obj: object) -> str:
    reply = await api.call("POST", target, obj)
    assert (reply.status, reply.body["reason"]) == (403, "Forbidden")
    return str(reply.body["message"])


async def used(api: Api, clock: VirtualClock, name: str = "q") -> Any:
    await clock.advance(1)
    return (await api.get(f"{QUOTAS}/{name}"))["status"]["used"]


async def end(api: Api, name: str, phase: str = "Succeeded") -> None:
    await api.patch(f"{PODS}/{name}/status", {"status": {"phase": phase}})


async def test_pod_beyond_the_quota_is_refused(api: Api) -> None:
    await api.post(QUOTAS, quota(pods="2"))
    await api.post(PODS, pod("a"))
    await api.post(PODS, pod("b"))
    reply = await api.call("POST", PODS, pod("pi-x7k2p"))
    text = 'pods "pi-x7k2p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    assert (reply.status, reply.body["reason"], reply.body["message"]) == (403, "Forbidden", text)
    assert reply.body["details"] == {"name": "pi-x7k2p", "kind": "pods"}


async def test_drawn_name_is_in_the_refusal(api: Api) -> None:
    await api.post(QUOTAS, quota(pods="0"))
    drawn = pod("")
    drawn["metadata"] = {"generateName": "pi-"}
    name = (await refusal(api, PODS, drawn)).split('"')[1]
    assert name.startswith("pi-")
    assert len(name) == len("pi-x7k2p")


async def test_quota_counts_what_was_there_before_it(api: Api) -> None:
    await api.post(PODS, pod("a"))
    await api.post(QUOTAS, quota(pods="1"))
    assert "used: pods=1" in await refusal(api, PODS, pod("b"))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_pod_that_ends_frees_its_share(api: Api, kcr_clock: VirtualClock, phase: str) -> None:
    await api.post(QUOTAS, quota(pods="1", count__pods="2"))
    await api.post(PODS, pod("a"))
    await end(api, "a", phase)
    assert await used(api, kcr_clock) == {"pods": "0", "count/pods": "1"}
    await api.post(PODS, pod("b"))
    assert "exceeded quota: q, requested: count/pods=1,pods=1" in await refusal(api, PODS, pod("c"))


async def test_pod_that_is_gone_frees_its_share(api: Api) -> None:
    await api.post(QUOTAS, quota(pods="1"))
    for _ in range(3):
        await api.post(PODS, pod("a"))
        await api.delete(f"{PODS}/a")


async def test_pod_stuck_past_its_grace_frees_its_share(api: Api, kcr_clock: VirtualClock) -> None:
    await api.post(QUOTAS, quota(pods="1"))
    bound = pod("a")
    bound["spec"]["nodeName"] = "n1"
    await api.post(PODS, bound)
    await api.delete(f"{PODS}/a")
    await kcr_clock.advance(60)
    await refusal(api, PODS, pod("b"))
    await kcr_clock.advance(1)
    await api.post(PODS, pod("b"))


async def test_pod_held_by_a_finalizer_alone_takes_nothing(api: Api, kcr_clock: VirtualClock) -> None:
    await api.post(QUOTAS, quota(pods="1"))
    await api.post(PODS, pod("a", finalizers=["example.com/hold"]))
    await api.delete(f"{PODS}/a")
    await kcr_clock.advance(1)
    await api.post(PODS, pod("b"))


async def test_resources_are_summed_up(api: Api, kcr_clock: VirtualClock) -> None:
    await api.post(QUOTAS, quota(requests_cpu="1"))
    await api.post(PODS, hungry("a", "600m"))
    text = "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
    assert text in await refusal(api, PODS, hungry("b", "500m"))
    await api.post(PODS, hungry("b", "400m"))
    assert await used(api, kcr_clock) == {"requests.cpu": "1"}


async def test_limited_resource_must_be_stated(api: Api) -> None:
    await api.post(QUOTAS, quota(requests_cpu="1", limits_memory="1Gi"))
    text = 'pods "a" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c'
    assert await refusal(api, PODS, pod("a")) == text


async def test_every_kind_can_be_counted(api: Api) -> None:
    await api.post(QUOTAS, quota(count__jobs_batch="1", configmaps="0"))
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    await api.post(jobs, job("a"))
    text = 'jobs.batch "b" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=1'
    assert text in await refusal(api, jobs, job("b"))
    await refusal(api, "/api/v1/namespaces/default/configmaps", config_map("a"))


async def test_other_namespaces_are_left_alone(api: Api) -> None:
    await api.post(QUOTAS, quota(pods="0"))
    await api.post("/api/v1/namespaces/kube-public/pods", pod("a"))


async def test_first_quota_that_is_exceeded_is_named(api: Api) -> None:
    await api.post(QUOTAS, quota("b", pods="0"))
    await api.post(QUOTAS, quota("a", pods="0"))
    assert "exceeded quota: a," in await refusal(api, PODS, pod("x"))


async def test_scope_chooses_the_pods(api: Api, kcr_clock: VirtualClock) -> None:
    await api.post(QUOTAS, quota(pods="0", spec={"scopes": ["BestEffort"]}))
    selector = {"matchExpressions": [{"scopeName": "Terminating", "operator": "Exists"}]}
    await api.post(QUOTAS, quota("r", pods="0", spec={"scopeSelector": selector}))
    await api.post(PODS, hungry("a", "1m"))
    assert "exceeded quota: q," in await refusal(api, PODS, pod("b"))
    hurried = hungry("c", "1m")
    hurried["spec"]["activeDeadlineSeconds"] = 5
    assert "exceeded quota: r," in await refusal(api, PODS, hurried)
    assert await used(api, kcr_clock) == {"pods": "0"}


async def test_status_says_what_is_used(api: Api, kcr_clock: VirtualClock) -> None:
    await api.post(QUOTAS, quota(pods="4", services="2", requests_memory="2048Mi"))
    await kcr_clock.advance(1)
    status = (await api.get(f"{QUOTAS}/q"))["status"]
    assert status == {
        "hard": {"pods": "4", "services": "2", "requests.memory": "2Gi"},
        "used": {"pods": "0", "services": "0", "requests.memory": "0"},
    }
    filling = pod("a")
    filling["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1.5Gi"}}
    await api.post(PODS, filling)
    assert await used(api, kcr_clock) == {"pods": "1", "services": "0", "requests.memory": "1536Mi"}


SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, kind: str, ports: int = 1, **spec: Any) -> dict[str, Any]:
    listed = [{"name": f"p{number}", "port": 80 + number} for number in range(ports)]
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": listed, **spec}}


async def test_services_count_by_their_type(api: Api, kcr_clock: VirtualClock) -> None:
    # Source: kubernetes/pkg/quota/v1/evaluator/core/services.go; the conformance test of the life of a service.
    limits = {"services": "3", "services.nodeports": "1", "services.loadbalancers": "1"}
    await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": limits}})
    await api.post(SERVICES, service("a", "ClusterIP"))
    await api.post(SERVICES, service("b", "NodePort"))
    for kind in ("NodePort", "LoadBalancer"):
        assert await refusal(api, SERVICES, service("c", kind)) == (
            'services "c" is forbidden: exceeded quota: q, requested: services.nodeports=1, '
            "used: services.nodeports=1, limited: services.nodeports=1"
        )
    await api.post(SERVICES, service("c", "LoadBalancer", allocateLoadBalancerNodePorts=False))
    assert await used(api, kcr_clock) == {
        "services": "3", "services.nodeports": "1", "services.loadbalancers": "1"
    }  # fmt: skip
    assert "requested: services=1" in await refusal(api, SERVICES, service("d", "ClusterIP"))
    for name in "abc":
        await api.delete(f"{SERVICES}/{name}")
    assert await used(api, kcr_clock) == dict.fromkeys(limits, "0")


async def test_service_that_grows_is_judged_by_its_growth(api: Api, kcr_clock: VirtualClock) -> None:
    await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"services.nodeports": "2", "services": "1"}}})
    await api.post(SERVICES, service("a", "ClusterIP"))
    await api.patch(f"{SERVICES}/a", {"spec": {"type": "NodePort"}})
    assert await used(api, kcr_clock) == {"services.nodeports": "1", "services": "1"}
    ports = [{"name": f"p{number}", "port": 80 + number} for number in range(3)]
    reply = await api.call(
        "PATCH", f"{SERVICES}/a", {"spec": {"ports": ports}}, content_type="application/merge-patch+json"
    )
    assert (reply.status, reply.body["message"].partition("exceeded ")[2]) == (
        403, "quota: q, requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2"
    )  # fmt: skip
    await api.patch(f"{SERVICES}/a", {"metadata": {"labels": {"a": "b"}}})


async def test_claims_count_their_storage_by_class(api: Api, kcr_clock: VirtualClock) -> None:
    # Source: kubernetes/pkg/quota/v1/evaluator/core/persistent_volume_claims.go.
    gold = "gold.storageclass.storage.k8s.io"
    limits = {"persistentvolumeclaims": "5", "requests.storage": "3Gi", f"{gold}/persistentvolumeclaims": "1"}
    await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": limits}})
    place = "/api/v1/namespaces/default/persistentvolumeclaims"

    def claim(name: str, storage: str, storage_class: str) -> dict[str, Any]:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
        return {"metadata": {"name": name}, "spec": {**spec, "storageClassName": storage_class}}

    await api.post(place, claim("a", "1Gi", "gold"))
    assert "requested: requests.storage=3Gi, used: requests.storage=1Gi" in await refusal(
        api, place, claim("b", "3Gi", "silver")
    )
    assert f"requested: {gold}/persistentvolumeclaims=1" in await refusal(api, place, claim("b", "1Gi", "gold"))
    await api.post(place, claim("b", "0.5", "silver"))
    assert await used(api, kcr_clock) == {
        "persistentvolumeclaims": "2", "requests.storage": "1073741825", f"{gold}/persistentvolumeclaims": "1"
    }  # fmt: skip


async def test_replication_controllers_count_without_a_prefix(api: Api, kcr_clock: VirtualClock) -> None:
    limits = {"replicationcontrollers": "1", "count/replicationcontrollers": "2"}
    await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": limits}})
    place = "/api/v1/namespaces/default/replicationcontrollers"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = {"spec": {"replicas": 0, "template": template}}
    await api.post(place, {"metadata": {"name": "a"}, **made})
    assert "requested: replicationcontrollers=1" in await refusal(api, place, {"metadata": {"name": "b"}, **made})
    assert await used(api, kcr_clock) == dict.fromkeys(limits, "1")


async def test_limits_change_with_the_quota(api: Api, kcr_clock: VirtualClock) -> None:
    await api.post(QUOTAS, quota(pods="1", services="1"))
    await api.post(PODS, pod("a"))
    await api.patch(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "2", "services": None}}})
    await api.post(PODS, pod("b"))
    assert await used(api, kcr_clock) == {"pods": "2"}
    await api.delete(f"{QUOTAS}/q")
    await api.post(PODS, pod("c"))


async def test_dry_run_is_judged_and_takes_nothing(api: Api) -> None:
    await api.post(QUOTAS, quota(pods="1"))
    for _ in range(2):
        await api.post(f"{PODS}?dryRun=All", pod("a"))
    await api.post(PODS, pod("a"))
    await refusal(api, f"{PODS}?dryRun=All", pod("b"))


async def test_status_of_a_new_quota_is_the_servers(api: Api) -> None:
    made = await api.post(QUOTAS, {**quota(pods="1"), "status": {"used": {"pods": "9"}}})
    assert made["status"] == {}


@pytest.mark.parametrize(
    ("hard", "text"),
    [
        pytest.param(
            {"tea": "1"},
            '[spec.hard[tea]: Invalid value: "tea": must be a standard resource type or fully qualified, '
            'spec.hard[tea]: Invalid value: "tea": must be a standard resource for quota]',
            id="unknown",
        ),
        pytest.param(
            {"pods": "-1"}, 'spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0', id="negative"
        ),
        pytest.param({"pods": "500m"}, 'spec.hard[pods]: Invalid value: "500m": must be an integer', id="half"),
    ],
)
async def test_limits_must_make_sense(api: Api, hard: dict[str, str], text: str) -> None:
    reply = await api.call("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    assert (reply.status, reply.body["message"]) == (422, f'ResourceQuota "q" is invalid: {text}')


async def test_scopes_of_a_quota_stay(api: Api) -> None:
    await api.post(QUOTAS, quota(pods="1"))
    reply = await api.call(
        "PATCH", f"{QUOTAS}/q", {"spec": {"scopes": ["BestEffort"]}}, content_type="application/merge-patch+json"
    )
    assert (reply.status, reply.body["details"]["causes"][0]["field"]) == (422, "spec.scopes")


async def test_kubectls_protobuf_makes_a_quota(api: Api) -> None:
    pods = message((1, "pods"), (2, message((1, "2"))))
    raw = message((1, message((1, "q"))), (2, message((1, pods), (2, "BestEffort"))), (3, b""))
    reply = await api.call("POST", QUOTAS, body("v1", "ResourceQuota", raw), content_type=PROTOBUF)
    assert reply.status == 201
    assert reply.body["spec"] == {"hard": {"pods": "2"}, "scopes": ["BestEffort"]}


async def test_quotas_show_what_is_used(api: Api, kcr_clock: VirtualClock) -> None:
    await api.post(QUOTAS, quota(pods="2", count__jobs_batch="3", limits_cpu="1"))
    await kcr_clock.advance(5)
    table = await api.get(QUOTAS, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Request", "Limit", "Age"]
    assert table["rows"][0]["cells"] == ["q", "count/jobs.batch: 0/3, pods: 0/2", "limits.cpu: 0/1", "5s"]


async def test_custom_resources_are_counted_as_they_come_and_go(api: Api, kcr_clock: VirtualClock) -> None:
    await api.post(QUOTAS, quota(spec={"hard": {"count/widgets.ex.io": "2"}}))
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({}))))
    await kcr_clock.advance(1)
    for name in "ab":
        await api.post(WIDGETS, widget(name))
    assert await used(api, kcr_clock) == {"count/widgets.ex.io": "2"}
    assert "exceeded quota: q" in await refusal(api, WIDGETS, widget("c"))
    await api.delete(f"{WIDGETS}/a")
    assert await used(api, kcr_clock) == {"count/widgets.ex.io": "1"}
