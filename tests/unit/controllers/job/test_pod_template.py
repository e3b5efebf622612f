import json

import msgspec
import pytest

from controllers.job.pod_template import named, prototype, restart_policy
from kcr.api import codec
from tests.builders import job, template


def test_pod_carries_the_template_and_what_the_controller_adds() -> None:
    # job-controller §13.1.
    raw = msgspec.Raw(
        b'{"metadata":{"name":"x","labels":{"a":"b"},"annotations":{"n":"1"},"finalizers":["own/one"],'
        b'"ownerReferences":[{"uid":"z"}]},"spec":{"containers":[{"name":"c","novel":1}],"restartPolicy":"Never"}}'
    )
    wire = json.loads(codec.encode(prototype(job(template=raw))))
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
        prototype(job(template=msgspec.Raw(b'{"spec":{}}')))


def test_long_names_are_cut_to_fit_a_label() -> None:
    one = job()
    long = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, name="x" * 70))
    assert named(prototype(long), "abcde").metadata.name == "x" * 58 + "abcde"
    assert named(prototype(one), "abcde").metadata.name == "pi-abcde"


def test_restart_policy_is_read_from_the_template() -> None:
    assert restart_policy(job(template=template("OnFailure"))) == "OnFailure"
