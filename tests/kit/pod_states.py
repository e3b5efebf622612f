"""Pods half-way through their lives, as values."""

from datetime import UTC, datetime, timedelta

from kcr.api.meta import ObjectMeta
from kcr.cluster.node.containers import BackingOff, ContainerLife, Ended, Running, State, Waiting, lives_of
from kcr.cluster.node.life import PodLife
from kcr.cluster.node.pods import Container, RunnablePod, RunnableSpec, RunnableStatus, Terminated

START = datetime(2026, 1, 1, tzinfo=UTC)


class Idle:
    ready_after_seconds = 0.0

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def running(since: float = 0.0, *, ready_at: float = 0.0) -> Running:
    return Running(Idle(), "kcr://1", at(since), since, ready_at)


def end(code: int = 0) -> Terminated:
    reason = "Error" if code else "Completed"
    return Terminated(exit_code=code, reason=reason, started_at=at(0), finished_at=at(1), container_id="kcr://1")


def ended(code: int = 0, *, restart_at: float | None = None) -> Ended:
    return Ended(end(code), restart_at)


def backing_off(restart_at: float, code: int = 1) -> BackingOff:
    return BackingOff(end(code), restart_at)


def life(
    *mains: State, inits: tuple[State, ...] = (), sidecars: tuple[State, ...] = (), policy: str = "OnFailure",
    phase: str = "Pending", deleted_with_grace: int | None = None, deadline: int | None = None,
) -> PodLife:  # fmt: skip
    """A pod whose containers are in these states: init containers i0…, sidecars s0…, main containers c0…"""
    spec = RunnableSpec(
        restart_policy=policy,
        active_deadline_seconds=deadline,
        init_containers=(
            *(Container(name=f"i{number}", image="x") for number in range(len(inits))),
            *(Container(name=f"s{number}", image="x", restart_policy="Always") for number in range(len(sidecars))),
        ),
        containers=tuple(Container(name=f"c{number}", image="x") for number in range(len(mains))),
    )
    metadata = ObjectMeta(
        name="p", namespace="ns", uid="u",
        deletion_timestamp=None if deleted_with_grace is None else at(deleted_with_grace),
        deletion_grace_period_seconds=deleted_with_grace,
    )  # fmt: skip
    pod = RunnablePod(metadata=metadata, spec=spec, status=RunnableStatus(phase=phase))
    states = (*inits, *sidecars, *mains)
    containers: dict[str, ContainerLife] = {
        name: container._replace(state=state)
        for (name, container), state in zip(lives_of(pod).items(), states, strict=True)
    }
    return PodLife(pod=pod, containers=containers, accepted_at=0.0, start_time=START, ip="10.0.0.1")


WAITING = Waiting()
