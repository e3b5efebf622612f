import json

import msgspec
import pytest
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.batch import Job, JobStatus
from kcr.api.meta import Condition
from kcr.controllers.job.decisions.gang import is_gang, is_made_from, is_new, pod_group_of, refers_to, workload_of
from kcr.controllers.job.decisions.pod_template import build_pod_template
from tests.kit.builders import NOW, indexed, job

GROUPED = msgspec.Raw(b'{"metadata":{"labels":{"a":"b"}},"spec":{"schedulingGroup":{"podGroupName":"state"}}}')


@pytest.mark.parametrize(
    ("one", "together"),
    [
        pytest.param(indexed(4), True, id="all-at-once"),
        pytest.param(indexed(4, parallelism=2), False, id="some-at-once"),
        pytest.param(indexed(1), False, id="one-pod"),
        pytest.param(job(parallelism=4, completions=4), False, id="no-indexes"),
        pytest.param(indexed(4, template=GROUPED), False, id="template-says-otherwise"),
    ],
)
def test_gang_is_an_indexed_job_whose_pods_run_together(one: Job, together: bool) -> None:
    # job-controller §35.1.
    assert is_gang(one) is together


@pytest.mark.parametrize(
    ("status", "has_pods", "new"),
    [
        pytest.param(JobStatus(), False, True, id="untouched"),
        pytest.param(JobStatus(), True, False, id="has-pods"),
        pytest.param(JobStatus(start_time=NOW), False, False, id="has-started"),
        pytest.param(JobStatus(failed=1), False, False, id="has-failed"),
        pytest.param(JobStatus(conditions=(Condition(type="Suspended", status="False"),)), False, False, id="resumed"),
    ],
)
def test_only_a_new_job_becomes_a_gang(status: JobStatus, has_pods: bool, new: bool) -> None:
    # job-controller §35.2.
    assert is_new(indexed(4, status=status), has_pods=has_pods) is new


def test_workload_asks_for_all_pods_at_once() -> None:
    # job-controller §35.3.
    one = indexed(4)
    made = workload_of(one)
    wire = json.loads(codec.encode(made))
    assert wire["spec"] == {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "pi"},
        "podGroupTemplates": [{"name": "pi-pgt-0", "schedulingPolicy": {"gang": {"minCount": 4}}}],
    }
    assert made.metadata.owner_references[0].controller
    assert made == workload_of(one)
    assert refers_to(made, one)
    assert not refers_to(made, replace(one, metadata=replace(one.metadata, name="other")))


def test_group_is_made_from_the_template() -> None:
    # job-controller §35.4.
    one = indexed(4)
    workload = workload_of(one)
    workload = replace(workload, metadata=replace(workload.metadata, uid="uid-w"))
    group = pod_group_of(one, workload)
    wire = json.loads(codec.encode(group))
    assert wire["spec"] == {
        "podGroupTemplateRef": {
            "workload": {"workloadName": workload.metadata.name, "podGroupTemplateName": "pi-pgt-0"}
        },
        "schedulingPolicy": {"gang": {"minCount": 4}},
    }
    assert [(owner["kind"], owner.get("controller")) for owner in wire["metadata"]["ownerReferences"]] == [
        ("Job", True), ("Workload", None),
    ]  # fmt: skip
    assert is_made_from(group, workload)
    # One that a user made, or that belongs to another Job's, is not ours.
    assert not is_made_from(group, replace(workload, metadata=replace(workload.metadata, name="other")))
    assert not is_made_from(replace(group, spec=replace(group.spec, pod_group_template_ref=None)), workload)


def test_names_are_cut_to_what_the_server_takes() -> None:
    one = indexed(4)
    long = replace(one, metadata=replace(one.metadata, name="x" * 253))
    workload = workload_of(long)
    assert len(workload.metadata.name) == 253
    group = pod_group_of(long, workload).metadata.name
    assert len(group) == 253
    # Both parts are cut alike.
    assert abs(len(group.split("-")[0]) - group.count("x") / 2) < 10


def test_pods_name_their_group() -> None:
    # job-controller §35.6.
    spec = json.loads(codec.encode(build_pod_template(indexed(4), "g").spec))
    assert spec["schedulingGroup"] == {"podGroupName": "g"}
