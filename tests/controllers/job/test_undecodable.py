"""One object that cannot be decoded harms no other: the controller goes on, and says which one it is."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client, Request, Response, Transport
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, finished, job_controller, manifest
from tests.kit.transports import ChangedResponse

pytestmark = pytest.mark.kcr_virtual

DEEP = b'"managedFields":' + b'{"f:a":' * 20_000 + b"{}" + b"}" * 20_000 + b","
Mangle = Callable[[bytes], bytes]
MANGLED: dict[str, Mangle] = {
    "no-utf-8": lambda document: document.replace(b'"harm":"none"', b'"harm":"\xff"'),
    "half-a-surrogate-pair": lambda document: document.replace(b'"harm":"none"', b'"harm":"\\ud800"'),
}
if sys.version_info < (3, 14):  # which reads it
    MANGLED["nested"] = lambda document: document.replace(b'{"name":"undecodable"', b'{%s"name":"undecodable"' % DEEP)


class UndecodableObjects:
    """A transport whose server has stored what the embedded one would not."""

    def __init__(self, inner: Transport, how: str) -> None:
        self.inner = inner
        self._how = MANGLED[how]

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        async with self.inner.send(request) as response:
            yield ChangedResponse(response, self._lines, self._how)

    async def _lines(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            yield self._how(line)


def undecodable(kind: type[Job] | type[Pod]) -> dict[str, Any]:
    body = manifest("undecodable", suspend=True)
    if kind is Pod:
        body = {"apiVersion": "v1", "kind": "Pod", "spec": body["spec"]["template"]["spec"]}
    body["metadata"] = {"name": "undecodable", "namespace": "default", "annotations": {"harm": "none"}}
    return body


@pytest.mark.parametrize("how", MANGLED)
@pytest.mark.parametrize("kind", [Job, Pod], ids=["job", "pod"])
async def test_job_completes_beside_an_undecodable_object(
    kind: type[Job] | type[Pod], how: str, kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wire = UndecodableObjects(kcr_cluster.transport, how)
    with capture_logs() as logs:
        # It is in the first list, ...
        await kcr_cluster.client.create_manifest(kind, undecodable(kind), "default")
        async with job_controller(kcr_cluster, kcr_clock, transport=wire) as manager:
            await create(kcr_cluster.client, manifest("before"))
            assert (await finished(kcr_cluster.client, "before")).status.succeeded == 1
            seen = manager.informer(kind).counts["undecodable"]
            assert seen >= 1
            # ... and changes three times.
            for number in range(3):
                labels = {"metadata": {"labels": {"number": str(number)}}}
                await kcr_cluster.client.merge_patch(kind, Key("default", "undecodable"), labels)
                await kcr_clock.settle()
            assert manager.informer(kind).counts["undecodable"] >= seen + 3
            await create(kcr_cluster.client, manifest("after"))
            assert (await finished(kcr_cluster.client, "after")).status.succeeded == 1
    said = [line for line in logs if line["event"].startswith("object cannot be decoded")]
    assert [(line["kind"], line["key"]) for line in said] == [(kind.resource.display, "default/undecodable")]


async def test_client_that_reads_an_undecodable_object_is_told_which(kcr_cluster: EmbeddedCluster) -> None:
    await kcr_cluster.client.create_manifest(Pod, undecodable(Pod), "default")
    client = Client(UndecodableObjects(kcr_cluster.transport, "no-utf-8"))
    with pytest.raises(Exception, match="pods") as caught:
        await client.get(Pod, Key("default", "undecodable"))
    assert type(caught.value).__module__ == "kcr.errors"
