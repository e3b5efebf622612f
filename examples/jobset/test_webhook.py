"""The webhooks: alone, and in front of the API server."""

from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from examples.jobset.api import FailurePolicy, FailurePolicyRule, JobSet, SuccessPolicy
from examples.jobset.controller import setup
from examples.jobset.test_cluster import manifest
from examples.jobset.test_decisions import jobset
from examples.jobset.webhook import JobSetWebhook
from kcr.testing import VirtualClock, admit
from kcr_devcluster.cluster import EmbeddedCluster

TTL = {"ttlSecondsAfterFinished": 5}
RULE = FailurePolicyRule(action="FailJobSet", target_replicated_jobs=("worker",))


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, ("Indexed", "OnFailure"), id="empty"),
        pytest.param(
            {"completionMode": "NonIndexed", "template": {"spec": {"restartPolicy": "Never"}}},
            ("NonIndexed", "Never"), id="said",
        ),
    ],
)  # fmt: skip
async def test_templates_get_what_they_do_not_say(spec: dict[str, Any], expected: tuple[str, str]) -> None:
    given = jobset()
    one = given.spec.replicated_jobs[0]
    one = replace(one, template=replace(one.template, spec=spec))
    result = await admit(JobSetWebhook(), replace(given, spec=replace(given.spec, replicated_jobs=(one,))))
    assert result.object is not None
    found = result.object.spec.replicated_jobs[0].template.spec
    assert (found["completionMode"], found["template"]["spec"]["restartPolicy"]) == expected


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({}, "", id="valid"),
        pytest.param(
            {"success_policy": SuccessPolicy(target_replicated_jobs=("worker",))},
            "spec: no replicated Job is called worker", id="success-policy",
        ),
        pytest.param(
            {"failure_policy": FailurePolicy(rules=(RULE,))}, "spec: no replicated Job is called worker",
            id="failure-policy",
        ),
    ],
)  # fmt: skip
async def test_unknown_targets_are_refused(spec: dict[str, Any], message: str) -> None:
    assert (await admit(JobSetWebhook(), jobset(**spec))).message == message


@pytest.mark.kcr_virtual
async def test_jobs_that_would_be_created_for_ever_are_refused() -> None:
    given = jobset()
    one = replace(given.spec.replicated_jobs[0], template=replace(given.spec.replicated_jobs[0].template, spec=TTL))
    denied = await admit(JobSetWebhook(), replace(given, spec=replace(given.spec, replicated_jobs=(one,))))
    assert denied.message.startswith("spec.replicatedJobs[0].template.spec.ttlSecondsAfterFinished: a deleted Job")
    named = replace(given, metadata=replace(given.metadata, name="x" * 44))
    assert "would have more than 52 characters" in (await admit(JobSetWebhook(), named)).message


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        pytest.param({"suspend": True}, True, id="suspend"),
        pytest.param({"ttl_seconds_after_finished": 5}, True, id="time-to-live"),
        pytest.param({"replicated_jobs": ()}, False, id="jobs"),
        pytest.param({"failure_policy": FailurePolicy()}, False, id="policy"),
    ],
)
async def test_only_what_steers_a_set_may_change(changes: dict[str, Any], allowed: bool) -> None:
    old = (await admit(JobSetWebhook(), jobset())).object
    assert old is not None
    assert (await admit(JobSetWebhook(), replace(old, spec=replace(old.spec, **changes)), old=old)).allowed == allowed


@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(kinds=[JobSet])
async def test_denial_reaches_the_client(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    client = kcr_cluster.client
    manager = kcr.Manager(client, clock=kcr_clock)
    setup(manager)
    async with manager.running():
        created = await client.create_manifest(JobSet, manifest(suspend=True), "default")
        assert created.spec.replicated_jobs[0].template.spec["completionMode"] == "Indexed"
        await client.merge_patch(JobSet, created.key, {"spec": {"suspend": False}})
        with pytest.raises(kcr.InvalidError, match="only suspend and ttlSecondsAfterFinished may change"):
            await client.merge_patch(JobSet, created.key, {"spec": {"replicatedJobs": []}})
