import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.batch import Job, JobGangPolicy, JobSchedulingConfiguration, JobSchedulingPolicy, JobStatus
from kcr.api.meta import Condition, OwnerReference
from kcr.api.scheduling import (
    BetaPodGroup,
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodGroupStatus,
)
from kcr.controllers.job.decisions.gang import (
    BETA,
    gang_size,
    is_gang,
    is_grouped,
    is_made_from,
    is_new,
    pod_group_of,
    refers_to,
    state_text,
    workload_of,
)
from kcr.controllers.job.decisions.pod_template import build_pod_template
from tests.kit.builders import NOW, indexed, job, pod

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
    group = pod_group_of(one, workload, workload.spec.pod_group_templates[0])
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
    group = pod_group_of(long, workload, workload.spec.pod_group_templates[0]).metadata.name
    assert len(group) == 253
    # Both parts are cut alike.
    assert abs(len(group.split("-")[0]) - group.count("x") / 2) < 10


def test_pods_name_their_group() -> None:
    # job-controller §35.6.
    spec = json.loads(codec.encode(build_pod_template(indexed(4), "g").spec))
    assert spec["schedulingGroup"] == {"podGroupName": "g"}


def asking(policy: JobSchedulingPolicy | None, **spec: Any) -> Job:
    return job(scheduling=JobSchedulingConfiguration(scheduling_policy=policy), **spec)


@pytest.mark.parametrize(
    ("one", "size"),
    [
        pytest.param(job(parallelism=4), None, id="asks-for-nothing"),
        pytest.param(asking(None, parallelism=4), None, id="no-policy"),
        pytest.param(asking(JobSchedulingPolicy(basic={}), parallelism=4), None, id="basic"),
        pytest.param(asking(JobSchedulingPolicy(gang=JobGangPolicy()), parallelism=4), 4, id="all-of-them"),
        pytest.param(asking(JobSchedulingPolicy(gang=JobGangPolicy(min_count=2)), parallelism=4), 2, id="some"),
        pytest.param(asking(JobSchedulingPolicy(gang=JobGangPolicy()), parallelism=0), 1, id="at-least-one"),
    ],
)
def test_user_chooses_the_policy_in_the_newer_version(one: Job, size: int | None) -> None:
    """Source: keps/sig-apps/5547-integrate-workload-with-job, Defaulting Rules."""
    template = workload_of(one, BETA).spec.pod_group_templates[0]
    assert gang_size(template.scheduling_policy) == size
    assert gang_size(pod_group_of(one, workload_of(one, BETA), template, BETA).spec.scheduling_policy) == size


def test_other_fields_of_the_choice_are_carried_to_the_group() -> None:
    topology = {"topology": [{"key": "zone"}]}
    asked = JobSchedulingConfiguration(
        scheduling_constraints=topology, disruption_mode={"all": {}}, resource_claims=({"name": "gpu"},)
    )
    one = job(scheduling=asked)
    workload = workload_of(one, BETA)
    wire = json.loads(codec.encode(pod_group_of(one, workload, workload.spec.pod_group_templates[0], BETA)))
    assert wire["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert wire["spec"] == {
        "workloadRef": {"workloadName": workload.metadata.name, "templateName": "pi-pgt-0"},
        "schedulingPolicy": {"basic": {}}, "schedulingConstraints": topology, "disruptionMode": {"all": {}},
        "resourceClaims": [{"name": "gpu"}],
    }  # fmt: skip


def owned_by(kind: str) -> Job:
    owner = OwnerReference(api_version="batch/v1", kind=kind, name="o", uid="u", controller=True)
    one = job()
    return replace(one, metadata=replace(one.metadata, owner_references=(owner,)))


@pytest.mark.parametrize(
    ("one", "grouped"),
    [
        pytest.param(job(), True, id="of-a-user"),
        pytest.param(owned_by("CronJob"), True, id="of-a-cronjob"),
        pytest.param(owned_by("JobSet"), False, id="of-another-controller"),
        pytest.param(job(template=GROUPED), False, id="template-says-otherwise"),
    ],
)
def test_jobs_without_a_group_of_their_own_get_one(one: Job, grouped: bool) -> None:
    assert is_grouped(one, BETA) is grouped


def test_name_of_a_template_is_a_label_in_the_newer_version() -> None:
    one = replace(job(), metadata=replace(job().metadata, name=f"a.{'x' * 200}"))
    name = workload_of(one, BETA).spec.pod_group_templates[0].name
    assert (len(name), name[:3], name[-6:]) == (63, "a-x", "-pgt-0")


def group(size: int | None, status: str = "", message: str = "") -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=None if size is None else GangSchedulingPolicy(min_count=size))
    condition = Condition(type="PodGroupInitiallyScheduled", status=status, message=message)
    found = PodGroupStatus(conditions=(condition,) if status else ())
    return BetaPodGroup(spec=PodGroupSpec(scheduling_policy=policy), status=found)


@pytest.mark.parametrize(
    ("one", "pods", "text"),
    [
        pytest.param(group(None), 0, "", id="no-gang"),
        pytest.param(group(3, "True"), 1, "", id="scheduled"),
        pytest.param(group(3, "False", "no room"), 3, "gang: no room", id="in-words-of-the-scheduler"),
        pytest.param(group(3), 2, "gang: 2 of 3 pods exist; waits for the others", id="pods-are-missing"),
        pytest.param(group(3), 3, "gang: 0 of 3 pods have a node; waits for the scheduler", id="no-word-yet"),
    ],
)
def test_state_of_a_gang_is_a_fact(one: PodGroup, pods: int, text: str) -> None:
    assert state_text(one, [pod(f"p{number}", node="") for number in range(pods)]) == text
