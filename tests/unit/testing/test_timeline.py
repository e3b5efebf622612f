import json
from typing import Any

import pytest

from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.testing import VirtualClock
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.timeline import KEPT, SHOWN, RecordedWrite, Timeline

WEBSITES = "/apis/example.dev/v1/namespaces/default/websites"
EVENT = {
    "type": "Warning", "reason": "NoPods", "message": "none is ready", "source": {"component": "website"},
    "involvedObject": {"kind": "Website", "namespace": "default", "name": "shop"},
}  # fmt: skip
CONDITIONS = [{"type": "Ready", "status": "False", "reason": "NoPods"}, {"type": "Synced", "status": "True"}]


def shown(method: str, target: str, body: Any = None, status: int = 200, answer: Any = None) -> list[str]:
    timeline = Timeline()
    request = HTTPRequest(method, target, {}, b"" if body is None else json.dumps(body).encode())
    timeline.entries.append(RecordedWrite(1.25, "website", request, status, json.dumps(answer).encode()))
    timeline.count = 1
    return [" ".join(line.split()) for line in timeline.text().splitlines()[1:]]


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        pytest.param(
            ("POST", WEBSITES, {"metadata": {"generateName": "shop-"}}, 201, {"metadata": {"name": "shop-x7"}}),
            "1.2 website create websites.example.dev default/shop-x7",
            id="create-with-a-generated-name",
        ),
        pytest.param(
            ("POST", WEBSITES, {"metadata": {"name": "shop"}}, 409, {"reason": "AlreadyExists"}),
            "1.2 website create websites.example.dev default/shop 409 AlreadyExists",
            id="refused",
        ),
        pytest.param(
            (
                "PATCH",
                f"{WEBSITES}/shop/status",
                {"status": {"url": {"host": "a"}, "conditions": CONDITIONS, "ready": 0}},
            ),
            "1.2 website patch websites.example.dev default/shop/status "
            "ready=0 Ready=False (NoPods) Synced=True url.host=a",
            id="status",
        ),
        pytest.param(
            (
                "PATCH",
                f"{WEBSITES}/shop",
                {"metadata": {"resourceVersion": "5", "labels": {"a": None}}, "spec": {"n": 3}},
            ),
            "1.2 website patch websites.example.dev default/shop metadata.labels.a=null spec.n=3",
            id="merge-patch",
        ),
        pytest.param(
            (
                "PATCH",
                f"{WEBSITES}/shop",
                [{"op": "test", "path": "/a"}, {"op": "add", "path": "/metadata/finalizers/-"}],
            ),
            "1.2 website patch websites.example.dev default/shop add /metadata/finalizers/-",
            id="json-patch",
        ),
        pytest.param(
            ("DELETE", "/api/v1/namespaces/blue", {"propagationPolicy": "Background"}),
            "1.2 website delete namespaces blue",
            id="delete-without-namespace",
        ),
        pytest.param(
            ("POST", "/api/v1/namespaces/default/events", EVENT),
            "1.2 website event Warning NoPods: Website default/shop: none is ready",
            id="event",
        ),
        pytest.param(
            ("PATCH", f"{WEBSITES}/shop", "no mapping"), "1.2 website patch websites.example.dev default/shop", id="odd"
        ),
    ],
)
def test_write_is_told_in_a_line(request_: tuple[Any, ...], line: str) -> None:
    assert shown(*request_) == [line]


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1", id="lease"),
        pytest.param("/api/v1/nodes/node-1/status", id="node"),
        pytest.param("/apis/authorization.k8s.io", id="no-resource"),
    ],
)
def test_what_repeats_for_ever_is_left_out(target: str) -> None:
    assert shown("PATCH", target, {}) == []


def test_long_line_is_cut() -> None:
    (line,) = shown("PATCH", f"{WEBSITES}/shop", {"spec": {"text": "x" * 1000}})
    assert len(line) < 220
    assert line.endswith("…")


@pytest.mark.kcr_virtual
async def test_long_story_is_cut_at_its_beginning(kcr_clock: VirtualClock) -> None:
    timeline = Timeline()
    with timeline.recording():
        served = EmbeddedCluster(clock=kcr_clock, runtime=None, gc=False)
    async with served as cluster:
        client = cluster.client.with_options(field_manager="me")
        created = await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        for number in range(KEPT):
            await client.merge_patch(ConfigMap, created.key, {"data": {"n": str(number)}})
            await client.get(ConfigMap, created.key)
    _, left_out, *lines = timeline.text().splitlines()
    assert left_out == f"({KEPT + 1 - SHOWN} earlier writes are left out)"
    assert len(lines) == SHOWN
    assert lines[-1].split() == ["0.0", "me", "patch", "configmaps", "default/a", f"data.n={KEPT - 1}"]


def test_test_without_a_write_has_no_story() -> None:
    assert Timeline().text() == ""
