"""How a pod failed, and what holds one up that was deleted, on values alone."""

import pytest
from msgspec.structs import replace

from kcr.api.core import Pod
from kcr.controllers.job.decisions.explain.pods import failure_text, latest_failures, lingering_text, terminating_text
from tests.kit.builders import NOW, ago, pod


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        pytest.param(
            pod(phase="Failed", finished=ago(90), exit_code=137),
            "pod pi-1 failed 90s ago: container c: exit code 137", id="exit-code",
        ),
        pytest.param(
            replace(pod(), status=replace(pod().status, phase="Failed", reason="Evicted", message="low on\nmemory")),
            "pod pi-1 failed 2m ago: Evicted: low on memory", id="evicted",
        ),
    ],
)  # fmt: skip
def test_failure_names_container_or_reason(what: Pod, expected: str) -> None:
    assert failure_text(what, NOW) == expected


def test_container_that_succeeded_is_not_what_failed() -> None:
    good, bad = (pod(phase="Failed", finished=ago(90), exit_code=code).status.container_statuses[0] for code in (0, 3))
    failed = pod(phase="Failed", finished=ago(90), exit_code=3)
    statuses = (replace(good, name="sidecar"), bad)
    what = replace(failed, status=replace(failed.status, container_statuses=statuses))
    assert failure_text(what, NOW) == "pod pi-1 failed 90s ago: container c: exit code 3"


def test_pods_that_failed_alike_share_a_line() -> None:
    pods = [pod(f"pi-{number}", "Failed", finished=ago(90 - number), exit_code=3) for number in range(5)]
    other = pod("pi-9", "Failed", finished=ago(95), exit_code=4)
    assert latest_failures([*pods, other], NOW, 3) == (
        "pod pi-4 failed 86s ago: container c: exit code 3; 4 more pods failed alike",
        "pod pi-9 failed 95s ago: container c: exit code 4",
    )


def held(**fields: object) -> Pod:
    made = pod(deleted=ago(60), **fields)  # type: ignore[arg-type]  # of the builder
    return replace(made, metadata=replace(made.metadata, finalizers=(*made.metadata.finalizers, "example.dev/backup")))


def test_terminating_pod_names_its_node_and_its_finalizers() -> None:
    assert terminating_text(held(), NOW) == (
        "pod pi-1 has been terminating for 60s: grace period over for 60s, and its node n1 has not reported its end; "
        "it has finalizers, too: example.dev/backup"
    )


def test_ended_pod_that_a_finalizer_keeps_is_told_from_a_terminating_one() -> None:
    assert lingering_text(held()) == ""
    assert lingering_text(held(phase="Failed")) == (
        "pod pi-1 has ended; it stays for its finalizers (example.dev/backup), and the Job does not wait for it"
    )
