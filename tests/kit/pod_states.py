"""Pods half-way through their lives, as values."""

from datetime import UTC, datetime, timedelta

from kcr.api.meta import ObjectMeta
from kcr_devcluster.cluster.node.commands import CommandStreams, ContainerCommand
from kcr_devcluster.cluster.node.containers import (
    BackingOff,
    ContainerRecord,
    Running,
    State,
    Terminated,
    Waiting,
    new_records,
)
from kcr_devcluster.cluster.node.pod_state import PodState
from kcr_devcluster.cluster.node.pods import (
    KubeletContainer,
    KubeletPod,
    KubeletPodSpec,
    KubeletPodStatus,
    KubeletTerminated,
)

START = datetime(2026, 1, 1, tzinfo=UTC)


class Idle:
    ready_after_seconds = 0.0

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    async def exec(self, command: ContainerCommand, streams: CommandStreams) -> int:
        return 0

    async def attach(self, streams: CommandStreams, *, stdin: bool) -> None: ...


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def running(since: float = 0.0, *, ready_at: float = 0.0) -> Running:
    return Running(Idle(), "kcr://1", at(since), since, ready_at)


def end(code: int = 0) -> KubeletTerminated:
    reason = "Error" if code else "Completed"
    return KubeletTerminated(exit_code=code, reason=reason, started_at=at(0), finished_at=at(1), container_id="kcr://1")


def ended(code: int = 0, *, restart_at: float | None = None) -> Terminated:
    return Terminated(end(code), restart_at)


def backing_off(restart_at: float, code: int = 1) -> BackingOff:
    return BackingOff(end(code), restart_at)


def pod_state(
    *mains: State, inits: tuple[State, ...] = (), sidecars: tuple[State, ...] = (), policy: str = "OnFailure",
    phase: str = "Pending", deleted_with_grace: int | None = None, deadline: int | None = None,
) -> PodState:  # fmt: skip
    """A pod whose containers are in these states: init containers i0…, sidecars s0…, main containers c0…"""
    spec = KubeletPodSpec(
        restart_policy=policy,
        active_deadline_seconds=deadline,
        init_containers=(
            *(KubeletContainer(name=f"i{number}", image="x") for number in range(len(inits))),
            *(
                KubeletContainer(name=f"s{number}", image="x", restart_policy="Always")
                for number in range(len(sidecars))
            ),
        ),
        containers=tuple(KubeletContainer(name=f"c{number}", image="x") for number in range(len(mains))),
    )
    metadata = ObjectMeta(
        name="p", namespace="ns", uid="u",
        deletion_timestamp=None if deleted_with_grace is None else at(deleted_with_grace),
        deletion_grace_period_seconds=deleted_with_grace,
    )  # fmt: skip
    pod = KubeletPod(metadata=metadata, spec=spec, status=KubeletPodStatus(phase=phase))
    states = (*inits, *sidecars, *mains)
    containers: dict[str, ContainerRecord] = {
        name: container._replace(state=state)
        for (name, container), state in zip(new_records(pod).items(), states, strict=True)
    }
    return PodState(pod=pod, containers=containers, accepted_at=0.0, start_time=START, ip="10.0.0.1")


WAITING = Waiting()
