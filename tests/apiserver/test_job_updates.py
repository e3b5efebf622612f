"""What of a Job may change, and when (batch-api §8; job-controller §2.4).

Source: kubernetes/pkg/apis/batch/validation/validation_test.go, TestValidateJobUpdate;
pkg/registry/batch/job/strategy_test.go, TestJobStrategy_ValidateUpdate.
"""

from copy import deepcopy
from typing import Any

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.manifests import changed, indexed, job, refused_update, stored

IMMUTABLE = "field is immutable"
TEMPLATE, POD = "spec.template", "spec.template.spec"
CODES = {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}}]}
SUSPENDED: list[Manifest] = [{"type": "Suspended", "status": "True"}]
STARTED = "2026-01-01T00:00:00Z"


def fields(faults: list[str]) -> list[str]:
    return [fault.partition(": ")[0] for fault in faults]


@pytest.mark.parametrize(
    ("manifest", "change"),
    [
        pytest.param(indexed(), {"maxFailedIndexes": None, "parallelism": 0}, id="parallelism-alone"),
        pytest.param(indexed(backoffLimitPerIndex=1), {"maxFailedIndexes": 1}, id="failed-indexes"),
        pytest.param(
            indexed(backoffLimitPerIndex=1, maxFailedIndexes=1), {"maxFailedIndexes": None}, id="failed-indexes-gone"
        ),
        pytest.param(job(activeDeadlineSeconds=1), {"activeDeadlineSeconds": None}, id="deadline-gone"),
        pytest.param(job(ttlSecondsAfterFinished=1), {"ttlSecondsAfterFinished": None}, id="ttl-gone"),
        pytest.param(job(), {"manualSelector": True}, id="selector-becomes-manual"),
        pytest.param(job(suspend=True), {"suspend": False}, id="resumes"),
    ],
)
@pytest.mark.parametrize("ending", [None, "Complete", "Failed"])
def test_free_member_changes_even_after_the_end(manifest: Manifest, change: Manifest, ending: str | None) -> None:
    # §8.1
    status = {"conditions": [{"type": ending, "status": "True"}]} if ending else {}
    old = stored(manifest, status)
    assert refused_update(old, changed(old, **change)) == []


@pytest.mark.parametrize(
    ("manifest", "change"),
    [
        pytest.param(job(), {"selector": {"matchLabels": {"controller-uid": "1f1e-u"}}}, id="selector"),
        pytest.param(indexed(), {"backoffLimitPerIndex": 1}, id="limit-per-index-added"),
        pytest.param(indexed(backoffLimitPerIndex=1), {"backoffLimitPerIndex": None}, id="limit-per-index-gone"),
        pytest.param(job(podFailurePolicy=CODES), {"podFailurePolicy": {"rules": []}}, id="failure-policy-changed"),
        pytest.param(job(podFailurePolicy=CODES), {"podFailurePolicy": None}, id="failure-policy-gone"),
        pytest.param(indexed(), {"successPolicy": {"rules": [{"succeededCount": 1}]}}, id="success-policy-added"),
        pytest.param(
            indexed(successPolicy={"rules": [{"succeededCount": 1}]}),
            {"successPolicy": {"rules": [{"succeededCount": 2}]}},
            id="success-policy-changed",
        ),
        pytest.param(job(managedBy="a.io/b"), {"managedBy": None}, id="manager-gone"),
        pytest.param(job(managedBy="a.io/b"), {"managedBy": "a.io/c"}, id="manager-changed"),
        pytest.param(job(completions=3), {"completions": None}, id="completions-gone"),
    ],
)
def test_fixed_member_never_changes(manifest: Manifest, change: Manifest) -> None:
    # §8.1
    old = stored(manifest)
    (name,) = change
    faults = refused_update(old, changed(old, **change))
    assert [fields([fault])[0] for fault in faults if fault.endswith(f": {IMMUTABLE}")] == [f"spec.{name}"]


def test_manual_selector_becomes_automatic_only_with_generated_labels() -> None:
    # §8.1
    own = stored(job(labels={"a": "b"}, manualSelector=True, selector={"matchLabels": {"a": "b"}}))
    assert set(fields(refused_update(own, changed(own, manualSelector=False)))) == {
        "spec.template.metadata.labels[controller-uid]",
        "spec.template.metadata.labels[job-name]",
        "spec.selector",
    }
    once = stored(job())
    once["spec"]["manualSelector"] = True
    assert refused_update(once, changed(once, manualSelector=False)) == []


@pytest.mark.parametrize("missing", [("controller-uid", "job-name"), ("controller-uid",), ("job-name",)])
def test_very_old_job_need_not_get_prefixed_labels(missing: tuple[str, ...]) -> None:
    # §7.2: what is demanded on update is what the stored Job has, both or none.
    old = stored(job())
    for labels in (old["spec"]["template"]["metadata"]["labels"], old["metadata"]["labels"]):
        for name in missing:
            del labels[f"batch.kubernetes.io/{name}"]
    old["spec"]["selector"] = {"matchLabels": {"controller-uid": "1f1e-u"}}
    assert refused_update(old, changed(old, parallelism=2)) == []


@pytest.mark.parametrize(
    ("counts", "fault"),
    [
        pytest.param({"completions": 3, "parallelism": 3}, "", id="both-down"),
        pytest.param({"completions": 9, "parallelism": 9}, "", id="both-up"),
        pytest.param({"completions": 2}, "", id="down-to-the-parallelism-there-is"),
        pytest.param({"completions": 0, "parallelism": 0}, "", id="nothing-left"),
        pytest.param({"parallelism": 9}, "", id="parallelism-alone"),
        pytest.param({"completions": 9}, "can only be modified in tandem with spec.parallelism", id="alone"),
        pytest.param(
            {"completions": 9, "parallelism": 8}, "can only be modified in tandem with spec.parallelism", id="apart"
        ),
        pytest.param({"completions": None, "parallelism": 2}, "when completion mode is Indexed", id="gone"),
    ],
)
@pytest.mark.parametrize("suspend", [False, True])
def test_elastic_job_changes_both_counts_together(counts: Manifest, fault: str, suspend: bool) -> None:
    # §8.2, row 15.67
    old = stored(indexed(suspend=suspend))
    faults = refused_update(old, changed(old, **counts))
    assert (fields(faults), [fault in one for one in faults]) == ((["spec.completions"], [True]) if fault else ([], []))


def preference(weight: int) -> Manifest:
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": {}}]}


# A template with something of everything that may or may not change.
CONTAINER: Manifest = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}, "env": [{"name": "A"}]}
FULL: Manifest = {
    "containers": [CONTAINER, {"name": "d", "image": "i"}],
    "initContainers": [{"name": "s", "image": "i"}],
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "schedulingGates": [{"name": "a.io/g"}],
}
NEAR: Manifest = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
AFFINE: Manifest = {"affinity": {"nodeAffinity": preference(1), **NEAR}}


def suspended(**pod: Any) -> Manifest:
    return stored(job(suspend=True, pod={**deepcopy(FULL), **pod}))


def with_pod(old: Manifest, **pod: Any) -> Manifest:
    new = deepcopy(old)
    new["spec"]["template"]["spec"].update(deepcopy(pod))
    return new


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({"nodeSelector": {"c": "d"}}, id="node-selector"),
        pytest.param({"nodeSelector": None}, id="node-selector-gone"),
        pytest.param({"tolerations": None}, id="tolerations-gone"),
        pytest.param({"schedulingGates": None}, id="gates-gone"),
        pytest.param({"schedulingGates": [{"name": "b.io/h"}]}, id="other-gate"),
        pytest.param({"affinity": {"nodeAffinity": preference(2)}}, id="node-affinity"),
        pytest.param(
            {"containers": [{**CONTAINER, "resources": {"limits": {"cpu": "2"}}}, {"name": "d", "image": "i"}]},
            id="resources",
        ),
        pytest.param(
            {"containers": [{**CONTAINER, "resources": {}}, {"name": "d", "image": "i"}]}, id="resources-gone"
        ),
        pytest.param(
            {"initContainers": [{"name": "s", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
            id="resources-of-init-container",
        ),
    ],
)
def test_suspended_template_takes_directives_and_resources(pod: Manifest) -> None:
    # §8.3
    old = suspended()
    assert refused_update(old, with_pod(old, **pod)) == []


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({"containers": [{**CONTAINER, "image": "x"}, {"name": "d", "image": "i"}]}, id="image"),
        pytest.param({"containers": [{**CONTAINER, "env": []}, {"name": "d", "image": "i"}]}, id="environment"),
        pytest.param({"containers": [{"name": "d", "image": "i"}, CONTAINER]}, id="order"),
        pytest.param({"containers": [CONTAINER]}, id="container-gone"),
        pytest.param(
            {"containers": [CONTAINER, {"name": "d", "image": "i"}, {"name": "e", "image": "i"}]}, id="container-added"
        ),
        pytest.param({"initContainers": None}, id="init-container-gone"),
        pytest.param({"priorityClassName": "high"}, id="priority"),
        pytest.param({"restartPolicy": "OnFailure"}, id="restart-policy"),
        pytest.param({"affinity": NEAR}, id="pod-affinity"),
        pytest.param({"resources": {"limits": {"cpu": "1"}}}, id="resources-of-the-pod"),
        pytest.param({"activeDeadlineSeconds": 5}, id="deadline-of-the-pod"),
    ],
)
def test_suspended_template_keeps_everything_else(pod: Manifest) -> None:
    # §8.3, row 15.70
    old = suspended()
    (fault,) = refused_update(old, with_pod(old, **pod))
    assert (fields([fault]), fault.endswith(f": {IMMUTABLE}")) == ([POD], True)


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        pytest.param({"affinity": {"nodeAffinity": preference(1)}}, {"affinity": None}, True, id="nothing-else-in-it"),
        pytest.param(AFFINE, {"affinity": None}, False, id="pod-affinity-in-it"),
        pytest.param(AFFINE, {"affinity": NEAR}, True, id="node-affinity-alone-goes"),
        pytest.param(AFFINE, {"affinity": {"nodeAffinity": preference(1)}}, False, id="pod-affinity-alone-goes"),
    ],
)
def test_affinity_goes_only_as_far_as_the_node(before: Manifest, after: Manifest, allowed: bool) -> None:
    # §8.3
    old = suspended(**before)
    assert fields(refused_update(old, with_pod(old, **after))) == ([] if allowed else [POD])


def test_new_resources_must_be_good_by_themselves() -> None:
    # §8.3
    old = suspended()
    bad = {**CONTAINER, "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}
    faults = refused_update(old, with_pod(old, containers=[bad, {"name": "d", "image": "i"}]))
    assert fields(faults) == [f"{POD}.containers[0].resources.requests"]


def test_generated_labels_stay_on_a_suspended_template() -> None:
    # §8.3
    old = suspended()
    new = deepcopy(old)
    metadata = new["spec"]["template"]["metadata"]
    metadata["annotations"] = {"a": "b"}
    metadata["labels"]["x"] = "y"
    assert refused_update(old, new) == []
    del metadata["labels"]["job-name"]
    assert fields(refused_update(old, new)) == ["spec.template.metadata.labels[job-name]"]


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        pytest.param({}, {}, id="never-suspended"),
        pytest.param({"suspend": True}, {"startTime": STARTED}, id="not-yet-marked"),
        pytest.param(
            {"suspend": True}, {"startTime": STARTED, "conditions": [{"type": "Suspended", "status": "False"}]},
            id="marked-as-resumed",
        ),
        pytest.param({"suspend": True}, {"startTime": STARTED, "active": 1, "conditions": SUSPENDED}, id="pods-left"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "pod", [{"nodeSelector": {"c": "d"}}, {"schedulingGates": None}, {"affinity": {"nodeAffinity": preference(2)}}]
)
def test_template_of_a_job_that_may_run_is_fixed(spec: Manifest, status: Manifest, pod: Manifest) -> None:
    # §8.3, row 15.69; job-controller §2.4
    old = stored(job(pod=deepcopy(FULL), **spec), status)
    faults = refused_update(old, with_pod(old, **pod))
    assert (fields(faults), faults[0].endswith(f": {IMMUTABLE}")) == ([TEMPLATE], True)


def test_job_that_ran_and_was_suspended_again_qualifies() -> None:
    # §8.3: since 1.36
    old = stored(job(suspend=True, pod=deepcopy(FULL)), {"startTime": STARTED, "conditions": SUSPENDED})
    assert refused_update(old, with_pod(changed(old, suspend=False), nodeSelector={"c": "d"})) == []
