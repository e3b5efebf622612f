from kcr.api.core import ContainerStateRunning, ContainerStateWaiting
from kcr.api.meta import ObjectMeta
from kcr.cluster.node.containers import BackingOff, Ended, Waiting
from kcr.cluster.node.pods import Container, ContainerState, ContainerStatus, RunnablePod, RunnableSpec, RunnableStatus
from kcr.cluster.node.recall import recalled
from tests.kit.pod_states import at, end


def pod(state: ContainerState, last: ContainerState | None = None, phase: str = "Running") -> RunnablePod:
    status = ContainerStatus(name="c", restart_count=2, state=state, last_state=last or ContainerState())
    return RunnablePod(
        metadata=ObjectMeta(name="p", namespace="ns", uid="u"),
        spec=RunnableSpec(restart_policy="OnFailure", containers=(Container(name="c"),)),
        status=RunnableStatus(phase=phase, container_statuses=(status,)),
    )


def test_pod_nobody_has_run_waits_for_its_first_start() -> None:
    fresh = RunnablePod(spec=RunnableSpec(containers=(Container(name="c"),)))
    assert recalled(fresh, at(0), 0.0)["c"].state == Waiting()


def test_container_that_ran_is_lost() -> None:
    life = recalled(pod(ContainerState(running=ContainerStateRunning(started_at=at(0)))), at(9), 9.0)["c"]
    assert life.restarts == 2
    assert isinstance(life.state, Ended)
    assert (life.state.end.exit_code, life.state.end.reason) == (137, "ContainerStatusUnknown")
    assert life.state.restart_at == 9.0


def test_ended_container_keeps_its_end() -> None:
    life = recalled(pod(ContainerState(terminated=end(0))), at(9), 9.0)["c"]
    assert life.state == Ended(end(0), None)


def test_container_in_back_off_starts_again() -> None:
    waiting = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    life = recalled(pod(waiting, ContainerState(terminated=end(1))), at(9), 9.0)["c"]
    assert life.state == BackingOff(end(1), 9.0)


def test_nothing_is_recalled_of_an_ended_pod() -> None:
    assert recalled(pod(ContainerState(terminated=end(0)), phase="Succeeded"), at(9), 9.0) == {}
