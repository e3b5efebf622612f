"""The trace of a Job: its reconciles, the pods that they create, and the CronJob that has created it."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.testing import VirtualClock
from kcr.tracing import TRACEPARENT, context_in
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, finished, job_controller, manifest
from tests.kit.traces import Traces, attributes, parent_id, span_id, trace_id

pytestmark = pytest.mark.kcr_virtual
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def reconciles(traces: Traces) -> list[ReadableSpan]:
    return [span for span in traces.find("reconcile job") if attributes(span)["kcr.name"] == "pi"]


async def contexts_of(cluster: EmbeddedCluster) -> set[str]:
    return {pod.metadata.annotations.get(TRACEPARENT, "") for pod in await cluster.client.list(Pod, "default")}


async def test_pods_of_a_job_lead_back_to_the_reconcile_that_created_them(
    traces: Traces, kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(completions=3, parallelism=3))
        await finished(kcr_cluster.client)
    spans = reconciles(traces)
    (text,) = await contexts_of(kcr_cluster)
    context = context_in(text)
    assert context is not None
    creating = next(span for span in spans if span_id(span) == context.span_id)
    assert trace_id(creating) == context.trace_id
    later = spans[spans.index(creating) + 1 :]
    assert all(parent_id(span) is None for span in spans), "roots: the Job has no context"
    assert {link.context.span_id for span in later for link in span.links} == {context.span_id}
    assert any(link for span in later for link in span.links)


async def test_job_with_a_context_and_its_pods_are_one_trace(
    traces: Traces, kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    asked = manifest()
    asked["metadata"]["annotations"] = {TRACEPARENT: f"00-{TRACE}-{SPAN}-01"}
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, asked)
        await finished(kcr_cluster.client)
    spans = reconciles(traces)
    assert len(spans) > 1
    assert {f"{trace_id(span):032x}" for span in spans} == {TRACE}
    assert {f"{parent_id(span):016x}" for span in spans} == {SPAN}
    (text,) = await contexts_of(kcr_cluster)
    assert text.split("-")[1] == TRACE


async def test_context_outlives_the_process_that_has_written_it(
    traces: Traces, kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "30s"}))
        await kcr_clock.advance(10)
    before = await contexts_of(kcr_cluster)
    count = len(reconciles(traces))
    async with job_controller(kcr_cluster, kcr_clock, seed=2):
        await finished(kcr_cluster.client)
    (text,) = before
    context = context_in(text)
    assert context is not None
    assert context.span_id in {link.context.span_id for span in reconciles(traces)[count:] for link in span.links}


async def test_without_a_provider_nothing_is_written(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest())
        await finished(kcr_cluster.client)
    assert await contexts_of(kcr_cluster) == {""}
    job = await kcr_cluster.client.get(Job, Key("default", "pi"))
    assert TRACEPARENT not in job.metadata.annotations
