from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from kcr.api.core import ContainerStateRunning, ContainerStateWaiting
from kcr.api.meta import ObjectMeta
from kcr_devcluster.cluster.node.containers import (
    BackingOff,
    ContainerRecord,
    Role,
    Running,
    Stop,
    Terminated,
    Waiting,
    backed_off,
    is_init_done,
    new_records,
    restart_action,
    restarted,
    restore,
    start_deferred,
    started,
    terminated,
)
from kcr_devcluster.cluster.node.pods import (
    ExitCodes,
    KubeletContainer,
    KubeletContainerState,
    KubeletContainerStatus,
    KubeletPod,
    KubeletPodSpec,
    KubeletPodStatus,
    RestartRule,
)
from kcr_devcluster.cluster.node.runtime import Exit, StartDeferred
from tests.kit.pod_states import Idle, at, end

START = datetime(2026, 1, 1, tzinfo=UTC)


def running(now: float) -> Running:
    return Running(Idle(), f"kcr://{now}", START + timedelta(seconds=now), now, now)


def run(record: ContainerRecord, begin: float, end: float, code: int = 1) -> ContainerRecord:
    record = started(record, running(begin))
    return terminated(record, Exit(code), "OnFailure", START + timedelta(seconds=end), end)


@pytest.mark.parametrize(
    ("role", "policy", "code", "again"),
    [
        pytest.param("main", "Never", 1, False, id="never"),
        pytest.param("main", "OnFailure", 1, True, id="on-failure-failed"),
        pytest.param("main", "OnFailure", 0, False, id="on-failure-succeeded"),
        pytest.param("main", "Always", 0, True, id="always"),
        pytest.param("main", "", 0, True, id="unset-means-always"),
        pytest.param("init", "Always", 0, False, id="init-succeeds-once"),
        pytest.param("init", "Always", 1, True, id="init-failed"),
        pytest.param("init", "Never", 1, False, id="init-failed-under-never"),
        pytest.param("sidecar", "Never", 0, True, id="sidecar-always"),
    ],
)
def test_policy_and_role_say_who_restarts(role: Role, policy: str, code: int, again: bool) -> None:
    own = "Always" if role == "sidecar" else None
    assert restart_action(ContainerRecord(KubeletContainer(name="c", restart_policy=own), role), policy, code) == (
        "Restart" if again else ""
    )


def rule(operator: str, *codes: int, action: str = "Restart") -> RestartRule:
    return RestartRule(action=action, exit_codes=ExitCodes(operator=operator, values=codes))


ALL = rule("In", 88, action="RestartAllContainers")


@pytest.mark.parametrize(
    ("own", "rules", "code", "action"),
    [
        pytest.param("Never", (rule("In", 42),), 42, "Restart", id="code-in-the-list"),
        pytest.param("Never", (rule("In", 42),), 1, "", id="code-not-in-the-list"),
        pytest.param("Never", (rule("NotIn", 1, 2),), 42, "Restart", id="code-outside-the-list"),
        pytest.param("Never", (rule("NotIn", 1, 2),), 2, "", id="code-not-outside-the-list"),
        pytest.param("OnFailure", (rule("In", 42),), 1, "Restart", id="policy-of-its-own-without-a-rule"),
        pytest.param("OnFailure", (rule("In", 0),), 0, "Restart", id="success-restarts-by-rule"),
        pytest.param("Never", (), 1, "", id="policy-of-its-own-before-the-pods"),
        pytest.param("Never", (rule("In", 1), ALL), 88, "RestartAllContainers", id="all-containers"),
        pytest.param("Never", (rule("NotIn", 0), ALL), 88, "Restart", id="first-rule-decides"),
        pytest.param("Always", (ALL,), 88, "RestartAllContainers", id="all-containers-by-a-restarted-one"),
    ],
)
def test_first_rule_that_names_the_code_decides(
    own: str, rules: tuple[RestartRule, ...], code: int, action: str
) -> None:
    """Source: keps/sig-node/5307-container-restart-policy, keps/sig-node/5532-restart-all-containers-on-exits."""
    container = KubeletContainer(name="c", restart_policy=own, restart_policy_rules=rules)
    assert restart_action(ContainerRecord(container, "main"), "OnFailure", code) == action


def test_init_container_that_succeeded_runs_again_with_all_others_only() -> None:
    container = KubeletContainer(name="i", restart_policy="Never", restart_policy_rules=(rule("In", 0, 3), ALL))
    record = ContainerRecord(container, "init")
    assert [restart_action(record, "Never", code) for code in (0, 3, 4, 88)] == [
        "", "Restart", "", "RestartAllContainers",
    ]  # fmt: skip


def test_restarts_by_rule_back_off_like_others() -> None:
    container = KubeletContainer(name="c", restart_policy="Never", restart_policy_rules=(ALL,))
    record = ContainerRecord(container, "main", running(0))
    for begin in (0.0, 10.0):
        record = terminated(record._replace(state=running(begin)), Exit(88), "Never", at(begin + 1), begin + 1)
    assert record.state == Terminated(record.state.end, 21.0, restarts_all=True)  # type: ignore[union-attr]
    waiting = restarted(record, "RestartingAllContainers")
    assert (waiting.state, waiting.restart_count) == (Waiting("RestartingAllContainers", retry_at=21.0), 1)
    assert waiting.last_end is not None and waiting.last_end.exit_code == 88
    never_ran = ContainerRecord(container, "main")
    assert restarted(never_ran, "RestartingAllContainers") == never_ran


def test_restart_of_all_is_neither_lost_nor_counted_twice_by_a_new_node() -> None:
    container = KubeletContainer(name="c", restart_policy="Never", restart_policy_rules=(ALL,))
    one = pod(KubeletContainerState(terminated=end(88)))
    one = replace(one, spec=replace(one.spec, restart_policy="Never", containers=(container,)))
    assert restore(one, at(9), 9.0)["c"].state == Terminated(end(88), 9.0, restarts_all=True)
    waiting = KubeletContainerState(waiting=ContainerStateWaiting(reason="RestartingAllContainers"))
    record = restore(pod(waiting, KubeletContainerState(terminated=end(88))), at(9), 9.0)["c"]
    assert (record.state, record.restart_count, record.last_end) == (Waiting(), 2, end(88))


def test_waits_double_from_ten_seconds_to_five_minutes() -> None:
    record, now, waits = ContainerRecord(KubeletContainer(name="c"), "main"), 0.0, []
    for _ in range(9):
        record = run(record, now, now + 1)
        assert isinstance(record.state, Terminated) and record.state.restart_at is not None
        waits.append(record.state.restart_at - (now + 1))
        now = record.state.restart_at
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_run_of_over_ten_minutes_starts_the_series_over() -> None:
    record = ContainerRecord(KubeletContainer(name="c"), "main", backoff_seconds=80)
    assert run(record, 0, 600).backoff_seconds == 160
    assert run(record, 0, 601).backoff_seconds == 0


def test_restart_counts_and_remembers_the_end_before() -> None:
    record = run(ContainerRecord(KubeletContainer(name="c"), "main"), 0, 5)
    assert (record.restart_count, record.last_end) == (0, None)
    record = started(record, running(5))
    assert record.restart_count == 1
    assert record.last_end is not None and record.last_end.finished_at == START + timedelta(seconds=5)


def test_end_is_told_in_whole_seconds_with_the_usual_words() -> None:
    record = run(ContainerRecord(KubeletContainer(name="c"), "main"), 0.7, 5.9, code=0)
    assert isinstance(record.state, Terminated)
    end = record.state.end
    assert (end.reason, end.started_at, end.finished_at) == ("Completed", START, START + timedelta(seconds=5))


def test_backing_off_keeps_the_moment_of_the_restart() -> None:
    record = backed_off(run(ContainerRecord(KubeletContainer(name="c"), "main", backoff_seconds=10), 0, 5))
    assert isinstance(record.state, BackingOff) and record.state.restart_at == 25


def test_restart_that_cannot_begin_counts_as_a_run() -> None:
    record = run(ContainerRecord(KubeletContainer(name="c"), "main"), 0, 5)
    record = terminated(record, Exit(128, "StartError", "gone"), "OnFailure", START, 5)
    assert (record.restart_count, record.backoff_seconds) == (1, 10)


def test_container_whose_start_is_deferred_waits_and_is_retried() -> None:
    record = start_deferred(
        ContainerRecord(KubeletContainer(name="c"), "main"), StartDeferred("ErrImagePull", "no", 10), 3
    )
    assert record.state == Waiting("ErrImagePull", "no", 13)


def test_init_container_that_always_restarts_is_a_sidecar() -> None:
    spec = KubeletPodSpec(
        init_containers=(KubeletContainer(name="a"), KubeletContainer(name="b", restart_policy="Always")),
        containers=(KubeletContainer(name="c"),),
    )
    roles = {name: record.role for name, record in new_records(KubeletPod(spec=spec)).items()}
    assert roles == {"a": "init", "b": "sidecar", "c": "main"}


def pod(state: KubeletContainerState, last: KubeletContainerState | None = None, phase: str = "Running") -> KubeletPod:
    status = KubeletContainerStatus(name="c", restart_count=2, state=state, last_state=last or KubeletContainerState())
    return KubeletPod(
        metadata=ObjectMeta(name="p", namespace="ns", uid="u"),
        spec=KubeletPodSpec(restart_policy="OnFailure", containers=(KubeletContainer(name="c"),)),
        status=KubeletPodStatus(phase=phase, container_statuses=(status,)),
    )


def test_pod_nobody_has_run_waits_for_its_first_start() -> None:
    fresh = KubeletPod(spec=KubeletPodSpec(containers=(KubeletContainer(name="c"),)))
    assert restore(fresh, at(0), 0.0)["c"].state == Waiting()


def test_container_that_ran_is_lost() -> None:
    life = restore(pod(KubeletContainerState(running=ContainerStateRunning(started_at=at(0)))), at(9), 9.0)["c"]
    assert life.restart_count == 2
    assert isinstance(life.state, Terminated)
    assert (life.state.end.exit_code, life.state.end.reason) == (137, "ContainerStatusUnknown")
    assert life.state.restart_at == 9.0


def test_ended_container_keeps_its_end() -> None:
    life = restore(pod(KubeletContainerState(terminated=end(0))), at(9), 9.0)["c"]
    assert life.state == Terminated(end(0), None)


def test_container_in_back_off_starts_again() -> None:
    waiting = KubeletContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    life = restore(pod(waiting, KubeletContainerState(terminated=end(1))), at(9), 9.0)["c"]
    assert life.state == BackingOff(end(1), 9.0)


def initialized(policy: str, main: KubeletContainerState) -> KubeletPod:
    states = (("i", KubeletContainerState(terminated=end(0))), ("c", main))
    init, status = (KubeletContainerStatus(name=name, restart_count=0, state=state) for name, state in states)
    return KubeletPod(
        spec=KubeletPodSpec(
            restart_policy=policy,
            init_containers=(KubeletContainer(name="i"),),
            containers=(KubeletContainer(name="c"),),
            volumes=({"name": "work", "emptyDir": {}},),
        ),
        status=KubeletPodStatus(phase="Running", init_container_statuses=(init,), container_statuses=(status,)),
    )


RAN = KubeletContainerState(running=ContainerStateRunning(started_at=at(0)))
IDLE = KubeletContainerState(waiting=ContainerStateWaiting(reason="PodInitializing"))


@pytest.mark.parametrize("main", [pytest.param(RAN, id="running"), pytest.param(IDLE, id="waiting")])
def test_lost_pod_is_initialized_again(main: KubeletContainerState) -> None:
    record = restore(initialized("Always", main), at(9), 9.0)["i"]
    assert (record.state, record.restart_count, record.last_end) == (Waiting(), 1, end(0))


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
@pytest.mark.parametrize("main", [pytest.param(RAN, id="running"), pytest.param(IDLE, id="waiting")])
def test_pod_that_cannot_be_initialized_again_ends(policy: str, main: KubeletContainerState) -> None:
    records = restore(initialized(policy, main), at(9), 9.0)
    assert records["i"].state == Terminated(end(0))
    state = records["c"].state
    assert isinstance(state, Terminated) and (state.end.exit_code, state.restart_at) == (137, None)


def test_nothing_is_recalled_of_an_ended_pod() -> None:
    assert restore(pod(KubeletContainerState(terminated=end(0)), phase="Succeeded"), at(9), 9.0) == {}


@pytest.mark.parametrize(
    ("policy", "backoff", "restart_at"),
    [
        pytest.param("OnFailure", None, 5.0, id="whatever-its-exit-code"),
        pytest.param("OnFailure", 0.0, None, id="not-after-a-back-off"),
        pytest.param("Always", 0.0, 15.0, id="always"),
    ],
)
def test_run_that_the_kubelet_ends_is_replaced(policy: str, backoff: float | None, restart_at: float | None) -> None:
    record = ContainerRecord(KubeletContainer(name="c"), "main", backoff_seconds=backoff)
    stopped = running(0)._replace(stop=Stop(30, "failed", restart=True))
    state = terminated(record._replace(state=stopped), Exit(0), policy, at(5), 5.0).state
    assert isinstance(state, Terminated) and state.restart_at == restart_at
    assert state.is_replaced == (backoff is None)


def test_sidecar_that_ran_once_lets_others_start() -> None:
    sidecar = ContainerRecord(KubeletContainer(name="s", restart_policy="Always"), "sidecar")
    assert not is_init_done(sidecar._replace(state=running(0)._replace(has_started=False)))
    ran = terminated(sidecar._replace(state=running(0)), Exit(1), "Always", at(5), 5.0)
    assert is_init_done(ran) and is_init_done(ran._replace(state=running(6)._replace(has_started=False)))
