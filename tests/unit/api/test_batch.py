"""A field of Job stands in four places: its type, what the server validates, what an update may change, and a decision.

A published field that one of them lacks fails here, unless a table says why.
"""

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kcr.api import batch
from kcr_devcluster.apiserver.kinds.batch.job_spec import check_job_spec
from kcr_devcluster.apiserver.kinds.batch.job_update import check_job_update

ROOT = Path(__file__).parents[3]
_TABLE = json.loads((ROOT / "devcluster/kcr_devcluster/apiserver/schema/kubernetes.json").read_text())
# Of all versions.
PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    name: _TABLE["types"].get(name, {}) | _TABLE["later"]["types"].get(name, {})
    for name in {**_TABLE["types"], **_TABLE["later"]["types"]}
}
TYPES: Mapping[str, type[Any]] = {
    "JobSpec": batch.JobSpec,
    "JobStatus": batch.JobStatus,
    "UncountedTerminatedPods": batch.UncountedTerminatedPods,
    "PodFailurePolicy": batch.PodFailurePolicy,
    "PodFailurePolicyRule": batch.PodFailurePolicyRule,
    "PodFailurePolicyOnExitCodesRequirement": batch.OnExitCodes,
    "PodFailurePolicyOnPodConditionsPattern": batch.PodConditionPattern,
    "SuccessPolicy": batch.SuccessPolicy,
    "SuccessPolicyRule": batch.SuccessPolicyRule,
    "JobSchedulingConfiguration": batch.JobSchedulingConfiguration,
    "CronJobSpec": batch.CronJobSpec,
    "CronJobStatus": batch.CronJobStatus,
}
JOB_SPEC: Mapping[str, Any] = PUBLISHED["batch.v1.JobSpec"]

# Fields of a Job's spec that an update may change at any time; the others are fixed, or checked by themselves.
MUTABLE = {
    "activeDeadlineSeconds", "backoffLimit", "manualSelector", "maxFailedIndexes", "parallelism",
    "podReplacementPolicy", "suspend", "ttlSecondsAfterFinished",
}  # fmt: skip
# Published fields that no module of the Job controller reads or writes.
UNREAD: Mapping[str, str] = {"manualSelector": "only the server reads it, when it makes the selector"}


def test_every_type_of_a_job_is_compared() -> None:
    named = {name.removeprefix("batch.v1.") for name in PUBLISHED if name.startswith("batch.v1.")}
    assert named - TYPES.keys() == {"CronJob", "Job", "JobCondition", "JobTemplateSpec"}


@pytest.mark.parametrize("name", TYPES)
def test_type_has_every_published_field(name: str) -> None:
    assert set(TYPES[name].__struct_encode_fields__) == PUBLISHED[f"batch.v1.{name}"].keys()


@pytest.mark.parametrize("field", [name for name, kind in JOB_SPEC.items() if kind in ("int32", "int64")])
def test_numbers_of_a_job_are_validated(field: str) -> None:
    spec = {"template": {"metadata": {}, "spec": {}}, "completionMode": "Indexed", field: -1}
    assert f"spec.{field}" in [error.field for error in check_job_spec(spec, "spec")]


@pytest.mark.parametrize("field", JOB_SPEC)
def test_every_field_of_a_job_is_mutable_or_refused(field: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}
    stored: dict[str, Any] = {"template": template, "selector": {"matchLabels": {"a": "b"}}, "parallelism": 1}
    value = {"template": {"metadata": {"labels": {"a": "c"}}, "spec": {}}, "completions": 7}.get(field, "another")
    if JOB_SPEC[field] in ("int32", "int64"):
        value = 7
    elif JOB_SPEC[field] == "bool":
        value = True
    elif field != "template" and "." in str(JOB_SPEC[field]):
        value = {"matchLabels": {"a": "c"}} if field == "selector" else {"rules": []}
    errors = check_job_update({"spec": stored | {field: value}}, {"spec": stored})
    fixed = any(error.field == f"spec.{field}" and "immutable" in error.message for error in errors)
    assert fixed is (field not in MUTABLE)


@pytest.mark.parametrize("name", ["JobSpec", "JobStatus"])
def test_every_field_of_a_job_is_used_by_the_controller(name: str) -> None:
    used: set[str] = set()
    for module in (ROOT / "controllers/job").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            match node:
                case ast.Attribute(attr=attr) | ast.keyword(arg=str(attr)):
                    used.add(attr)
    fields = zip(TYPES[name].__struct_fields__, TYPES[name].__struct_encode_fields__, strict=True)
    assert {wire for field, wire in fields if field not in used} == {
        wire for wire in UNREAD if wire in TYPES[name].__struct_encode_fields__
    }
