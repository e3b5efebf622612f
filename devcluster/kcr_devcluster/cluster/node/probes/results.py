"""Results of probes: the changes of a container's state, and the events to record. No I/O: values in, a value out.

Source: kubernetes/pkg/kubelet/prober/{worker,prober}.go.
"""

from typing import Literal, NamedTuple

from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod, Probe, termination_grace_period

ProbeType = Literal["Startup", "Liveness", "Readiness"]

# A kubelet notices that a container runs when it next relists the runtime's containers, which is once a second. Here it
# is half a second: a program that listens by then passes its first probe, and does not wait a whole period.
NOTICE_SECONDS = 0.5


class HandlerResult(NamedTuple):
    """The result of one exec, httpGet or tcpSocket.

    Attributes:
        outcome: A warning counts as a success; an unknown one changes nothing.
        message: For events.
    """

    outcome: Literal["success", "warning", "failure", "unknown"]
    message: str = ""


class ProbeState(NamedTuple):
    """The state of a probe.

    Attributes:
        state: Whether the probe counts as successful; None as long as neither threshold has been reached.
        last: The outcome of the latest run.
        in_a_row: How many runs in a row had this outcome.
    """

    state: bool | None
    last: bool | None = None
    in_a_row: int = 0


# Before the first run: a container is alive, not ready, and not started.
INITIAL: dict[ProbeType, ProbeState] = {
    "Startup": ProbeState(None), "Liveness": ProbeState(True), "Readiness": ProbeState(False),
}  # fmt: skip


def next_result(result: ProbeState, succeeded: bool, probe: Probe) -> ProbeState:
    """Return the state of a probe after another run of it.

    Args:
        result: The state before.
        succeeded: The outcome of the run.
        probe: Its thresholds.

    Source: kubernetes/pkg/kubelet/prober/worker.go, doProbe.
    """
    in_a_row = result.in_a_row + 1 if result.last is succeeded else 1
    threshold = probe.success_threshold if succeeded else probe.failure_threshold
    return ProbeState(succeeded if in_a_row >= threshold else result.state, succeeded, in_a_row)


def first_run(probe: Probe, since: float, now: float) -> float:
    """Return when a probe is run first.

    Args:
        probe: The probe.
        since: When the container was started.
        now: When its startup probe succeeded, or it was started, all on one clock.
    """
    return max(since + max(float(probe.initial_delay_seconds), NOTICE_SECONDS), now)


def next_run(probe: Probe, due: float, now: float) -> float:
    """Return when a probe is run again that was due at `due` and has ended `now`; periods that were missed are lost."""
    return max(due + max(probe.period_seconds, 1), now)


def event_of(kind: ProbeType, result: HandlerResult) -> tuple[str, str] | None:
    """Return reason and message of the warning to record, None for none.

    Source: kubernetes/pkg/kubelet/prober/prober.go, probe.
    """
    match result.outcome:
        case "failure":
            return "Unhealthy", f"{kind} probe failed: {result.message}"
        case "warning":
            return "ProbeWarning", f"{kind} probe warning: {result.message}"
        case "unknown":
            return "Unhealthy", f"{kind} probe errored and resulted in unknown state: {result.message}"
        case "success":
            return None


def kill_message(kind: ProbeType, container: str, policy: str) -> str:
    """Return the message of the event `Killing` for a container that fails its startup or liveness probe.

    Source: kubernetes/pkg/kubelet/kuberuntime/kuberuntime_manager.go, computePodActions.
    """
    restarts = "" if policy == "Never" else ", will be restarted"
    return f"Container {container} failed {kind.lower()} probe{restarts}"


def grace_period(kind: ProbeType, pod: KubeletPod, container: KubeletContainer) -> int:
    """Return how many seconds a container may take to end that fails a probe: the probe's own, or the pod's.

    Source: kubernetes/pkg/kubelet/kuberuntime/kuberuntime_container.go, setTerminationGracePeriod.
    """
    probe = container.startup_probe if kind == "Startup" else container.liveness_probe
    own = None if probe is None else probe.termination_grace_period_seconds
    return termination_grace_period(pod) if own is None else own
