"""The truth tables of `autoSelector` and `manualSelector` (batch-api §11)."""

from copy import deepcopy
from typing import Any

import pytest

from kcr_devcluster.apiserver.kinds.strategy import UndecodableError
from kcr_devcluster.apiserver.kinds.views.legacy import job_from_hub, job_to_hub
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.manifests import job, prepared, refused


def old(flag: bool | None = None, **more: Any) -> Manifest:
    """A Job as extensions/v1beta1 had it."""
    made = {**job(**more), "apiVersion": "extensions/v1beta1"}
    if flag is not None:
        made["spec"]["autoSelector"] = flag
    return made


def taken(manifest: Manifest) -> Manifest:
    made = deepcopy(manifest)
    job_to_hub(made)
    return made


def shown(manifest: Manifest) -> Manifest:
    made = deepcopy(manifest)
    job_from_hub(made)
    return made


@pytest.mark.parametrize(
    ("flag", "other"),
    [
        pytest.param(None, True, id="missing"),
        pytest.param(False, True, id="false"),
        pytest.param(True, None, id="true"),
    ],
)
def test_flags_say_the_opposite_of_each_other(flag: bool | None, other: bool | None) -> None:
    # Decode and encode are the same table.
    assert taken(old(flag))["spec"].get("manualSelector") is other
    new = job() if flag is None else job(manualSelector=flag)
    assert shown(new)["spec"].get("autoSelector") is other


@pytest.mark.parametrize(
    ("start", "inside", "end"),
    [
        pytest.param(None, True, None, id="missing"),
        pytest.param(False, True, None, id="false-is-lost"),
        pytest.param(True, None, True, id="true"),
    ],
)
def test_round_trip_prefers_no_flag_to_false(start: bool | None, inside: bool | None, end: bool | None) -> None:
    # The same in both directions: v1beta1 through internal, v1 through v1beta1.
    there = taken(old(start))
    assert there["spec"].get("manualSelector") is inside
    assert shown(there)["spec"].get("autoSelector") is end
    there = shown(job() if start is None else job(manualSelector=start))
    assert there["spec"].get("autoSelector") is inside
    assert taken(there)["spec"].get("manualSelector") is end


def test_versions_name_their_own_flag_only() -> None:
    assert taken(old(True))["spec"].keys().isdisjoint({"autoSelector", "manualSelector"})
    assert "manualSelector" not in shown(job(manualSelector=False))["spec"]
    assert shown(job())["apiVersion"] == "extensions/v1beta1"
    assert taken(old())["apiVersion"] == "batch/v1"


def test_flag_lost_on_the_way_is_false_again_by_default() -> None:
    # v1 false, through v1beta1 true, to v1 absent.
    back = taken(shown(prepared(job())))
    assert "manualSelector" not in back["spec"]
    assert prepared(back)["spec"]["manualSelector"] is False


def test_old_job_selects_by_all_template_labels() -> None:
    made = prepared(taken(old(labels={"a": "b", "c": "d"})))
    assert made["spec"]["selector"] == {"matchLabels": {"a": "b", "c": "d"}}
    assert made["metadata"]["labels"] == {"a": "b", "c": "d"}
    assert made["spec"]["template"]["metadata"]["labels"] == {"a": "b", "c": "d"}


@pytest.mark.parametrize(
    ("manifest", "selector"),
    [
        pytest.param(old(labels={"a": "b"}, selector={"matchLabels": {}}), {}, id="own"),
        pytest.param(old(True, labels={"a": "b"}), None, id="automatic"),
        pytest.param(old(), None, id="nothing-to-select-by"),
    ],
)
def test_selector_is_made_of_labels_only_where_missing(manifest: Manifest, selector: Manifest | None) -> None:
    assert taken(manifest)["spec"].get("selector") == selector


def test_old_job_without_labels_is_refused() -> None:
    assert refused(taken(old())) == [
        "spec.selector: Required value",
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
    ]


def test_manifest_with_another_version_written_in_is_refused() -> None:
    # Intended: a selector needs `manualSelector` in batch/v1.
    faults = refused(job(labels={"a": "b"}, selector={"matchLabels": {"a": "b"}}))
    assert [fault.partition(": ")[0] for fault in faults] == ["spec.selector"]


def test_flag_of_wrong_type_is_no_job() -> None:
    broken = old()
    broken["spec"]["autoSelector"] = "yes"
    with pytest.raises(UndecodableError, match=r'Job in version "v1beta1" .* JobSpec\.spec\.autoSelector of type bool'):
        job_to_hub(broken)
