"""Which logs there are to follow."""

from kcr.api.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodStatus,
)
from kcr.api.meta import Key, ObjectMeta
from kcr.client import LogOptions
from kcr.controllers.job.commands.logs import ContainerRun, log_of, runs_of


def pi_pod(*statuses: ContainerStatus) -> Pod:
    metadata = ObjectMeta(name="pi-x", namespace="default", uid="u1")
    return Pod(metadata=metadata, status=PodStatus(container_statuses=statuses))


def test_containers_that_have_begun_are_followed() -> None:
    running = ContainerStatus(name="a", state=ContainerState(running=ContainerStateRunning()))
    ended = ContainerStatus(name="b", restart_count=2, state=ContainerState(terminated=ContainerStateTerminated()))
    assert runs_of(pi_pod(running, ended)) == (
        ContainerRun(Key("default", "pi-x"), "u1", "a", 0),
        ContainerRun(Key("default", "pi-x"), "u1", "b", 2),
    )


def test_containers_that_wait_have_no_log() -> None:
    waiting = ContainerStatus(name="a", state=ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff")))
    assert runs_of(pi_pod(waiting)) == ()


def test_run_that_was_restarted_is_read_as_the_previous() -> None:
    run = ContainerRun(Key("default", "pi-x"), "u1", "a", 0)
    again = pi_pod(ContainerStatus(name="a", restart_count=1, state=ContainerState(running=ContainerStateRunning())))
    assert log_of(run, None, LogOptions()) == LogOptions(container="a")
    assert log_of(run, again, LogOptions()) == LogOptions(container="a", previous=True)
