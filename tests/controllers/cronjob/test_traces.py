"""The trace of a CronJob's run: the reconcile that creates the Job, those of the Job, and its pods."""

import pytest

from kcr.api.core import Pod
from kcr.testing import VirtualClock
from kcr.tracing import TRACEPARENT, context_in
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import create, cronjob_controller, jobs_of, manifest
from tests.kit.harness import job_controller
from tests.kit.traces import Traces, attributes, parent_id, span_id, trace_id

pytestmark = pytest.mark.kcr_virtual


async def test_run_its_job_and_pods_are_one_trace(
    traces: Traces, kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with cronjob_controller(kcr_cluster, kcr_clock), job_controller(kcr_cluster, kcr_clock, seed=2):
        await create(kcr_cluster.client, manifest())
        await kcr_clock.advance(65)
    (job,) = await jobs_of(kcr_cluster.client)
    context = context_in(job.metadata.annotations[TRACEPARENT])
    assert context is not None
    creating = next(span for span in traces.find("reconcile cronjob") if span_id(span) == context.span_id)
    assert trace_id(creating) == context.trace_id
    spans = [span for span in traces.find("reconcile job") if attributes(span)["kcr.name"] == job.metadata.name]
    assert {(trace_id(span), parent_id(span)) for span in spans} == {(context.trace_id, context.span_id)}
    (pod,) = await kcr_cluster.client.list(Pod, "default")
    of_pod = context_in(pod.metadata.annotations[TRACEPARENT])
    assert of_pod is not None
    assert of_pod.trace_id == context.trace_id
    assert of_pod.span_id in {span_id(span) for span in spans}
    assert job.metadata.annotations["x"] == "y", "the template's annotations stay"
