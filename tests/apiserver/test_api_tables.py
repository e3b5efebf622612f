"""Tables: what kubectl get prints. Source: kubernetes/pkg/printers/internalversion/printers.go."""

from pathlib import Path
from typing import Any

import msgspec.yaml
import pytest

from tests.kit.api import NOT_SERVED, TABLE, Api, config_map, job, pod

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def typed_columns(table: Any) -> str:
    return ",".join(
        one["name"] + (f":{one['type']}" if one["type"] != "string" else "") + "*" * one["priority"]
        for one in table["columnDefinitions"]
    )


def columns(table: Any) -> str:
    return ",".join(one["name"] + "*" * one["priority"] for one in table["columnDefinitions"])


@pytest.mark.recorded
async def test_lists_have_the_columns_of_a_real_server(api: Api) -> None:
    recorded = msgspec.yaml.decode((Path(__file__).parent / "recordings" / "columns.yaml").read_bytes())
    found = {path: await api.get(path, accept=TABLE) for path in recorded if path not in NOT_SERVED}
    assert {path: typed_columns(table) for path, table in found.items()} == {path: recorded[path] for path in found}


async def test_jobs_show_progress_and_age(api: Api, kcr_clock: Any) -> None:
    created = await api.post(JOBS, job("pi"))
    await kcr_clock.advance(150)
    table = await api.get(JOBS, accept=TABLE)
    assert columns(table) == "Name,Status,Completions,Duration,Age,Containers*,Images*,Selector*"
    selector = f"batch.kubernetes.io/controller-uid={created['metadata']['uid']}"
    assert table["rows"][0]["cells"] == ["pi", "Running", "0/1", "", "2m30s", "c", "busybox", selector]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("spec", "external", "ports"),
    [
        ({"type": "ExternalName", "externalName": "a.example"}, "a.example", "<none>"),
        ({"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"]}, "1.2.3.4", "80/TCP"),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]}, "<none>", "80:30123/TCP"),
    ],
)
async def test_services_show_what_leads_to_them_from_outside(
    api: Api, spec: dict[str, Any], external: str, ports: str
) -> None:
    services = "/api/v1/namespaces/default/services"
    await api.post(services, {"metadata": {"name": "s"}, "spec": spec})
    (row,) = (await api.get(services, accept=TABLE))["rows"]
    assert row["cells"][3:5] == [external, ports]


async def test_load_balancer_shows_its_addresses(api: Api) -> None:
    services = "/api/v1/namespaces/default/services"
    spec = {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30123}], "externalIPs": ["1.2.3.4"]}
    await api.post(services, {"metadata": {"name": "s"}, "spec": spec})
    await api.patch(f"{services}/s/status", {"status": {"loadBalancer": {"ingress": [{"ip": "5.6.7.8"}]}}})
    (row,) = (await api.get(services, accept=TABLE))["rows"]
    assert row["cells"][3] == "5.6.7.8,1.2.3.4"
    await api.patch(f"{services}/s", {"spec": {"externalIPs": None}})
    await api.patch(f"{services}/s/status", {"status": {"loadBalancer": None}})
    (row,) = (await api.get(services, accept=TABLE))["rows"]
    assert row["cells"][3] == "<pending>"


async def test_one_pod_is_a_table_of_one_row(api: Api) -> None:
    await api.post(PODS, pod("a"))
    table = await api.get(f"{PODS}/a", accept=TABLE)
    assert columns(table) == "Name,Ready,Status,Restarts,Age,IP*,Node*,Nominated Node*,Readiness Gates*"
    assert table["rows"][0]["cells"] == ["a", "0/1", "Pending", "0", "0s", "<none>", "<none>", "<none>", "<none>"]


async def test_row_without_an_object_says_so(api: Api) -> None:
    await api.post(PODS, pod("a"))
    table = await api.get(f"{PODS}?includeObject=None", accept=TABLE)
    assert table["rows"][0]["object"] is None


@pytest.mark.parametrize(("include", "kind"), [("Object", "Pod"), ("Metadata", "PartialObjectMetadata")])
async def test_row_carries_what_is_asked_for(api: Api, include: str, kind: str) -> None:
    await api.post(PODS, pod("a"))
    table = await api.get(f"{PODS}?includeObject={include}", accept=TABLE)
    assert table["rows"][0]["object"]["kind"] == kind


@pytest.mark.parametrize(
    ("target", "obj", "expected_columns", "cells"),
    [
        pytest.param(
            "/api/v1/namespaces/default/configmaps", config_map("a"), "Name,Data,Age", ["a", 1, "0s"], id="config-map"
        ),
        pytest.param(
            "/api/v1/namespaces/default/limitranges", {"metadata": {"name": "a"}}, "Name,Created At",
            ["a", "2026-01-01T00:00:00Z"], id="no-printer",
        ),
        pytest.param(
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}},
            "Name,Holder,Age", ["a", "me", "0s"], id="lease",
        ),
        pytest.param(
            "/api/v1/nodes",
            {
                "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}},
                "spec": {"unschedulable": True},
            },
            "Name,Status,Roles,Age,Version,Internal-IP*,External-IP*,OS-Image*,Kernel-Version*,Container-Runtime*",
            ["n", "Unknown,SchedulingDisabled", "worker", "0s", "", *["<none>"] * 2, *["<unknown>"] * 3],
            id="node",
        ),
        pytest.param(
            "/api/v1/namespaces/default/events",
            {
                "metadata": {"name": "e"}, "involvedObject": {"kind": "Job", "name": "pi", "namespace": "default"},
                "reason": "Made", "message": "made it\n", "type": "Normal", "count": 3,
                "source": {"component": "me", "host": "here"}, "firstTimestamp": "2025-12-31T23:58:00Z",
                "lastTimestamp": "2025-12-31T23:59:55Z",
            },
            "Last Seen,Type,Reason,Object,Subobject*,Source*,Message,First Seen*,Count*,Name*",
            ["5s", "Normal", "Made", "job/pi", "", "me, here", "made it", "2m", 3, "e"], id="event",
        ),
    ],
)  # fmt: skip
async def test_kinds_have_their_columns(
    api: Api, target: str, obj: Any, expected_columns: str, cells: list[Any]
) -> None:
    await api.post(target, obj)
    table = await api.get(target, accept=TABLE)
    assert columns(table) == expected_columns
    assert table["rows"][0]["cells"] == cells
