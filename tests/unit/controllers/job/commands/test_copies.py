"""Copies of Jobs: their names, and the fields that they have of the original."""

from typing import Any

import pytest

from kcr.api.unstructured import Unstructured
from kcr.controllers.job.commands.copies import WholeJob, left_indexes, rerun_name, rerun_of

OWNER = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "hello", "uid": "u", "controller": True}
GENERATED = {"controller-uid": "u", "batch.kubernetes.io/job-name": "pi"}


def job(name: str = "pi", *, metadata: dict[str, Any] | None = None, **fields: Any) -> Unstructured:
    return WholeJob.of({"metadata": {"name": name, "namespace": "default", **(metadata or {})}, **fields})


@pytest.mark.parametrize(
    ("name", "annotations", "copy"),
    [
        pytest.param("pi", {}, "pi-rerun-1", id="first"),
        pytest.param("pi-rerun-9", {"kcr.dev/rerun-of": "pi"}, "pi-rerun-10", id="copy-of-a-copy"),
        pytest.param("pi-rerun-9", {}, "pi-rerun-9-rerun-1", id="name-of-a-user"),
        pytest.param("a" * 54 + "-bcdefghi", {}, "a" * 54 + "-rerun-1", id="too-long"),
    ],
)
def test_name_of_the_copy_follows_from_the_original(name: str, annotations: dict[str, str], copy: str) -> None:
    assert rerun_name(job(name, metadata={"annotations": annotations})) == copy
    assert len(copy) <= 63


def test_copy_keeps_fields_that_kcr_does_not_know_and_drops_generated_ones() -> None:
    template = {"metadata": {"labels": {**GENERATED, "app": "pi"}}, "spec": {"newer": 1}}
    spec = {"selector": {"matchLabels": GENERATED}, "suspend": False, "scheduling": {"newer": 2}, "template": template}
    copy = rerun_of(job(spec=spec, metadata={"labels": {**GENERATED, "team": "a"}}), "pi-rerun-1")
    assert copy["spec"] == {
        "scheduling": {"newer": 2}, "template": {"metadata": {"labels": {"app": "pi"}}, "spec": {"newer": 1}},
    }  # fmt: skip
    assert copy["metadata"]["labels"] == {"team": "a"}
    assert "ownerReferences" not in copy["metadata"]


def test_owner_of_another_kind_is_left_out() -> None:
    for owner, count in ((OWNER, 1), ({**OWNER, "kind": "Workflow"}, 0)):
        copy = rerun_of(job(spec={}, metadata={"ownerReferences": [owner]}), "again")
        assert len(copy["metadata"].get("ownerReferences", ())) == count


def test_indexes_that_never_ran_are_left_like_failed_ones() -> None:
    found = job(spec={"completions": 6}, status={"completedIndexes": "0,2-3", "failedIndexes": "1"})
    assert str(left_indexes(found)) == "1,4,5"
