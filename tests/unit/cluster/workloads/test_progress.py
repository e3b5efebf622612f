"""The status of a Deployment.

Source: kubernetes/pkg/controller/deployment/progress_test.go, util/deployment_util_test.go.
"""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from kcr.api.apps import Deployment, DeploymentCondition, DeploymentStatus
from kcr.api.conditions import find_condition
from kcr.api.meta import Condition
from kcr.testing import build
from kcr_devcluster.cluster.workloads.progress import (
    observed_status,
    progress_time_left,
    rollout_status,
    with_condition,
    with_pause,
)
from kcr_devcluster.cluster.workloads.revisions import History
from tests.kit.workloads import deployed, said, sized

NOW = build.CREATED + timedelta(minutes=1)


def progressing(reason: str, status: str = "True", at: datetime = build.CREATED) -> DeploymentCondition:
    return DeploymentCondition(
        type="Progressing", status=status, reason=reason, last_update_time=at, last_transition_time=at
    )


def observed(*conditions: DeploymentCondition, **counts: int) -> DeploymentStatus:
    return DeploymentStatus(observed_generation=1, conditions=conditions, **counts)


def test_status_counts_all_replica_sets() -> None:
    history = History(sized("v2", 3, 1), (sized("v1", 8, 7),))
    status = observed_status(deployed(10), history, NOW)
    counts = (status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas)
    assert (*counts, status.unavailable_replicas, status.observed_generation) == (11, 3, 8, 8, 3, 1)
    assert said(status.conditions) == {"Available": ("True", "MinimumReplicasAvailable")}


def test_deployment_is_unavailable_below_the_minimum() -> None:
    status = observed_status(deployed(10), History(sized("v2", 10, 7), ()), NOW)
    assert said(status.conditions) == {"Available": ("False", "MinimumReplicasUnavailable")}
    assert status.conditions[0].message == "Deployment does not have minimum availability."


def test_transition_time_moves_with_the_status_and_update_time_with_the_reason() -> None:
    words, later = ("R", "m"), NOW + timedelta(minutes=1)
    first = with_condition((), "A", "True", words, NOW)
    assert with_condition(first, "A", "True", ("R", "another message"), later) is first
    (second,) = with_condition(first, "A", "True", ("S", "m"), later)
    assert (second.last_transition_time, second.last_update_time) == (NOW, later)
    (third,) = with_condition(first, "A", "False", words, later)
    assert (third.last_transition_time, third.last_update_time) == (later, later)


@pytest.mark.parametrize(
    ("web", "history", "expected"),
    [
        pytest.param(
            deployed(3, status=observed(progressing("NewReplicaSetCreated"))), History(sized("v2", 3), ()),
            ("True", "NewReplicaSetAvailable", 'ReplicaSet "v2" has successfully progressed.'), id="complete",
        ),
        pytest.param(
            deployed(3, status=observed(progressing("NewReplicaSetCreated"), replicas=3)),
            History(sized("v2", 1), (sized("v1", 3),)),
            ("True", "ReplicaSetUpdated", 'ReplicaSet "v2" is progressing.'), id="progressing",
        ),
        pytest.param(
            deployed(3, status=observed(progressing("NewReplicaSetCreated"), replicas=3)),
            History(sized("v2", 0), (sized("v1", 3, 0),)), ("True", "NewReplicaSetCreated", ""), id="no-news",
        ),
        pytest.param(
            deployed(3, status=observed(progressing("ReplicaSetUpdated"), replicas=3), progress_deadline_seconds=59),
            History(sized("v2", 0), (sized("v1", 3, 0),)),
            ("False", "ProgressDeadlineExceeded", 'ReplicaSet "v2" has timed out progressing.'), id="timed-out",
        ),
        pytest.param(
            deployed(
                3, status=observed(progressing("NewReplicaSetAvailable"), replicas=3, updated_replicas=3),
                progress_deadline_seconds=1,
            ),
            History(sized("v2", 3, 1), ()), ("True", "NewReplicaSetAvailable", ""), id="complete-stays-complete",
        ),
        pytest.param(
            deployed(3, status=observed(progressing("X")), progress_deadline_seconds=None),
            History(sized("v2", 3), ()), None, id="no-deadline",
        ),
    ],
)  # fmt: skip
def test_progress_is_told_by_reason(web: Deployment, history: History, expected: tuple[str, str, str] | None) -> None:
    found = find_condition(rollout_status(web, history, NOW).conditions, "Progressing")
    assert (found and (found.status, found.reason, found.message)) == expected


def test_failure_of_a_replica_set_is_the_deployments_until_it_is_over() -> None:
    failure = Condition(type="ReplicaFailure", status="True", reason="FailedCreate", message="quota")
    new = sized("v2", 3, 0)
    failing = replace(new, status=replace(new.status, conditions=(failure,)))
    status = rollout_status(deployed(3), History(failing, ()), NOW)
    assert said(status.conditions)["ReplicaFailure"] == ("True", "FailedCreate")
    status = rollout_status(deployed(3, status=status), History(new, ()), NOW)
    assert "ReplicaFailure" not in said(status.conditions)


def test_pause_and_resumption_are_conditions() -> None:
    paused = with_pause(deployed(3, paused=True), NOW)
    assert said(paused.status.conditions) == {"Progressing": ("Unknown", "DeploymentPaused")}
    assert with_pause(paused, NOW) is paused
    resumed = with_pause(replace(paused, spec=replace(paused.spec, paused=False)), NOW)
    assert said(resumed.status.conditions) == {"Progressing": ("Unknown", "DeploymentResumed")}
    timed_out = deployed(3, paused=True, status=observed(progressing("ProgressDeadlineExceeded", "False")))
    assert with_pause(timed_out, NOW) is timed_out


@pytest.mark.parametrize(
    ("reason", "paused", "left"),
    [
        pytest.param("ReplicaSetUpdated", False, timedelta(seconds=540), id="under-way"),
        pytest.param("NewReplicaSetAvailable", False, None, id="complete"),
        pytest.param("ProgressDeadlineExceeded", False, None, id="timed-out"),
        pytest.param("ReplicaSetUpdated", True, None, id="paused"),
    ],
)
def test_deadline_counts_from_the_last_progress(reason: str, paused: bool, left: timedelta | None) -> None:
    assert progress_time_left(deployed(3, paused=paused), observed(progressing(reason)), NOW) == left
