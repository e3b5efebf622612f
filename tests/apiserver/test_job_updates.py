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
@pytest.mark.parametrize("ending", ["Complete", "Failed"])
def test_free_member_changes_even_after_the_end(manifest: Manifest, change: Manifest, ending: str) -> None:
    # §8.1
    old = stored(manifest, {"conditions": [{"type": ending, "status": "True"}]})
    assert refused_update(old, changed(old, **change)) == []


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


def suspended(**pod: Any) -> Manifest:
    return stored(job(suspend=True, pod={**deepcopy(FULL), **pod}))


def with_pod(old: Manifest, **pod: Any) -> Manifest:
    new = deepcopy(old)
    new["spec"]["template"]["spec"].update(deepcopy(pod))
    return new


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
