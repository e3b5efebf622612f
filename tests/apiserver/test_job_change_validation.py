"""Which changes of Jobs are refused, and in which words (BA 8; rows 60-71 of its catalogue).

Source: kubernetes/pkg/apis/batch/validation/validation_test.go, pkg/registry/batch/job/strategy_test.go.
"""

from copy import deepcopy
from typing import Any

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.manifests import changed, indexed, job, refused_update, stored, with_container

POD = "spec.template.spec"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"parallelism": 5}, id="parallelism"),
        pytest.param({"backoffLimit": 1}, id="backoff-limit"),
        pytest.param({"backoffLimit": None}, id="backoff-limit-to-default"),
        pytest.param({"activeDeadlineSeconds": 9}, id="deadline"),
        pytest.param({"ttlSecondsAfterFinished": 9}, id="ttl"),
        pytest.param({"suspend": True}, id="suspend"),
        pytest.param({"podReplacementPolicy": "Failed"}, id="replacement"),
    ],
)
def test_member_may_change_at_any_time(change: Manifest) -> None:
    # BA 8.1
    old = stored(job(), {"conditions": [{"type": "Complete", "status": "True"}]})
    assert refused_update(old, changed(old, **change)) == []


IMMUTABLE = "field is immutable"


@pytest.mark.parametrize(
    ("manifest", "change", "faults"),
    [
        pytest.param(job(), {"completions": 5}, [f"spec.completions: Invalid value: 5: {IMMUTABLE}"], id="65"),
        pytest.param(
            indexed(completions=2, parallelism=2),
            {"completions": 4},
            ["spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"],
            id="67",
        ),
        pytest.param(
            job(),
            {"managedBy": "a.io/b"},
            [f'spec.managedBy: Invalid value: "a.io/b": {IMMUTABLE}'],
            id="71-managed-by",
        ),
        pytest.param(
            job(),
            {"completionMode": "Indexed"},
            [f'spec.completionMode: Invalid value: "Indexed": {IMMUTABLE}'],
            id="71-mode",
        ),
        pytest.param(
            indexed(backoffLimitPerIndex=1),
            {"backoffLimitPerIndex": 0},
            [f"spec.backoffLimitPerIndex: Invalid value: 0: {IMMUTABLE}"],
            id="limit-per-index",
        ),
        pytest.param(
            job(),
            {"podFailurePolicy": {"rules": []}},
            [
                'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
                f'spec.podFailurePolicy: Invalid value: {{"rules":[]}}: {IMMUTABLE}',
            ],
            id="failure-policy-added",
        ),
        pytest.param(indexed(completions=2, parallelism=1), {"completions": 1}, [], id="old-values-do-not-matter"),
        pytest.param(indexed(), {"completions": 0, "parallelism": 0}, [], id="elastic-to-nothing"),
        pytest.param(indexed(), {"completions": 9, "parallelism": 9}, [], id="elastic-grows"),
    ],
)
def test_change_of_spec_is_held_to_rules(manifest: Manifest, change: Manifest, faults: list[str]) -> None:
    # BA 8.1, 8.2
    old = stored(manifest)
    assert refused_update(old, changed(old, **change)) == faults


def test_selector_cannot_be_removed() -> None:
    # BA 15.68
    old = stored(job())
    new = deepcopy(old)
    del new["spec"]["selector"]
    faults = refused_update(old, new)
    assert faults[0] == "spec.selector: Required value"
    assert faults[1].endswith(": `selector` does not match template `labels`")
    assert faults[2:] == ["spec.selector: Invalid value: null: field is immutable"]


def with_template(old: Manifest, **pod: Any) -> Manifest:
    new = deepcopy(old)
    new["spec"]["template"]["spec"].update(pod)
    return new


def touched(new: Manifest, old: Manifest) -> list[str]:
    return [fault.partition(": ")[0] for fault in refused_update(old, new)]


SUSPENDED = [{"type": "Suspended", "status": "True"}]


@pytest.mark.parametrize(
    ("spec", "status", "allowed"),
    [
        pytest.param({}, {}, False, id="not-suspended"),
        pytest.param({"suspend": True}, {}, True, id="never-started"),
        pytest.param({"suspend": True}, {"startTime": "2026-01-01T00:00:00Z"}, False, id="not-yet-marked"),
        pytest.param(
            {"suspend": True}, {"startTime": "2026-01-01T00:00:00Z", "conditions": SUSPENDED}, True, id="marked"
        ),
        pytest.param({"suspend": True}, {"active": 1, "conditions": SUSPENDED}, False, id="pods-still-active"),
    ],
)
def test_template_changes_only_while_suspended(spec: Manifest, status: Manifest, allowed: bool) -> None:
    # BA 8.3
    old = stored(job(**spec), status)
    assert touched(with_template(old, nodeSelector={"a": "b"}), old) == ([] if allowed else ["spec.template"])


NEAR: Manifest = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}


@pytest.mark.parametrize(
    ("pod", "fields"),
    [
        pytest.param({"tolerations": [{"operator": "Exists"}]}, [], id="tolerations"),
        pytest.param({"schedulingGates": [{"name": "a.io/g"}]}, [], id="gates"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, [], id="node-affinity"),
        pytest.param({"affinity": {"podAffinity": NEAR}}, [f"{POD}"], id="pod-affinity"),
        pytest.param({"containers": [{"name": "c", "image": "other"}]}, [f"{POD}"], id="70-image"),
        pytest.param({"priorityClassName": "high"}, [f"{POD}"], id="priority"),
        pytest.param(
            {"containers": [{"name": "c", "image": "busybox", "resources": {"limits": {"cpu": "2"}}}]},
            [],
            id="resources",
        ),
    ],
)
def test_suspended_job_takes_scheduling_directives(pod: Manifest, fields: list[str]) -> None:
    # BA 8.3
    old = stored(job(suspend=True))
    assert touched(with_template(old, **pod), old) == fields


def test_suspended_job_takes_labels_and_resumes_at_once() -> None:
    # BA 8.3: the stored Job decides
    old = stored(job(suspend=True))
    new = changed(old, suspend=False)
    new["spec"]["template"]["metadata"]["labels"]["x"] = "y"
    assert refused_update(old, new) == []


def test_template_may_not_change_in_the_write_that_suspends() -> None:
    old = stored(job())
    assert touched(with_template(changed(old, suspend=True), nodeSelector={"a": "b"}), old) == ["spec.template"]


def test_template_that_says_the_same_is_no_change() -> None:
    # BA 2.5
    old = stored(with_container(resources={"limits": {"cpu": "1"}}))
    new = deepcopy(old)
    new["spec"]["template"]["spec"]["containers"][0] |= {"resources": {"limits": {"cpu": "1000m"}}, "args": []}
    new["spec"]["template"]["spec"]["hostNetwork"] = False
    assert refused_update(old, new) == []
