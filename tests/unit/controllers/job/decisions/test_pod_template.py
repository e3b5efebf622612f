import json
from typing import Any

import msgspec
import pytest

from kcr.api import codec
from kcr.api.batch import Job
from kcr.controllers.job.decisions.pod_template import IndexedPod, build_pod_template, for_index, restart_policy
from tests.kit.builders import indexed, job, template

INDEX = "batch.kubernetes.io/job-completion-index"
VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
}


def pod_for(one: Job, member: IndexedPod) -> Any:
    return json.loads(codec.encode(for_index(one, build_pod_template(one), member)))


def test_pod_carries_the_template_and_what_the_controller_adds() -> None:
    # job-controller §13.1.
    raw = msgspec.Raw(
        b'{"metadata":{"name":"x","labels":{"a":"b"},"annotations":{"n":"1"},"finalizers":["own/one"],'
        b'"ownerReferences":[{"uid":"z"}]},"spec":{"containers":[{"name":"c","novel":1}],"restartPolicy":"Never"}}'
    )
    wire = json.loads(codec.encode(build_pod_template(job(template=raw))))
    assert wire["metadata"] == {
        "generateName": "pi-",
        "namespace": "default",
        "labels": {"a": "b"},
        "annotations": {"n": "1"},
        "finalizers": ["own/one", "batch.kubernetes.io/job-tracking"],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": "uid-pi",
                "controller": True, "blockOwnerDeletion": True,
            }
        ],
    }  # fmt: skip
    assert wire["spec"] == {"containers": [{"name": "c", "novel": 1}], "restartPolicy": "Never"}
    assert (wire["apiVersion"], wire["kind"]) == ("v1", "Pod")


def test_template_without_labels_makes_no_pods() -> None:
    with pytest.raises(ValueError, match="job default/pi: unable to create pods, no labels"):
        build_pod_template(job(template=msgspec.Raw(b'{"spec":{}}')))


def test_index_is_told_in_five_places() -> None:
    # Row 68; job-controller §13.1.
    raw = msgspec.Raw(
        b'{"metadata":{"labels":{"a":"b"},"annotations":{"n":"1"}},"spec":{"hostname":"state","novel":1,'
        b'"initContainers":[{"name":"i"}],"containers":[{"name":"c","env":[{"name":"X","value":"1"}]}]}}'
    )
    wire = pod_for(indexed(4, template=raw), IndexedPod(3))
    assert wire["metadata"]["labels"] == {"a": "b", INDEX: "3"}
    assert wire["metadata"]["annotations"] == {"n": "1", INDEX: "3"}
    assert wire["metadata"]["generateName"] == "pi-3-"
    assert wire["spec"] == {
        "hostname": "pi-3", "novel": 1,
        "initContainers": [{"name": "i", "env": [VARIABLE]}],
        "containers": [{"name": "c", "env": [{"name": "X", "value": "1"}, VARIABLE]}],
    }  # fmt: skip


def test_variable_that_a_container_sets_itself_is_left_alone() -> None:
    # Row 78.
    state = {"name": "JOB_COMPLETION_INDEX", "value": "state"}
    spec = {"containers": [{"name": "c", "env": [state]}, {"name": "d", "env": None}]}
    raw = msgspec.Raw(msgspec.json.encode({"metadata": {"labels": {"a": "b"}}, "spec": spec}))
    containers = pod_for(indexed(4, template=raw), IndexedPod(3))["spec"]["containers"]
    assert [container["env"] for container in containers] == [[state], [VARIABLE]]


def test_long_names_are_cut_before_the_index() -> None:
    # Row 79.
    one = indexed(2)
    long = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, name="x" * 70))
    prefix = for_index(long, build_pod_template(long), IndexedPod(1)).metadata.generate_name
    assert (len(prefix), prefix[-3:]) == (58, "-1-")


@pytest.mark.parametrize(
    ("member", "counts"),
    [
        pytest.param(IndexedPod(1), (None, None), id="not-counted"),
        pytest.param(IndexedPod(1, 0), ("0", None), id="row-86-first"),
        pytest.param(IndexedPod(1, 2, 1), ("2", "1"), id="row-96-both"),
    ],
)
def test_failures_of_the_index_are_written_on_the_pod(
    member: IndexedPod, counts: tuple[str | None, str | None]
) -> None:
    # Rows 86, 87 and 96.
    annotations = pod_for(indexed(2), member)["metadata"]["annotations"]
    keys = ("batch.kubernetes.io/job-index-failure-count", "batch.kubernetes.io/job-index-ignored-failure-count")
    assert tuple(annotations.get(key) for key in keys) == counts


def test_restart_policy_is_read_from_the_template() -> None:
    assert restart_policy(job(template=template("OnFailure"))) == "OnFailure"
