"""How a simulated run goes, and where that is said: by a callback, by annotations, by default."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcr.api.durations import parse_duration
from kcr.api.meta import controller_of
from kcr.cluster.node.images import is_idle_shell
from kcr.cluster.node.pods import INDEX_ANNOTATION, Container, RunnablePod

PREFIX = "sim.kcr.dev/"
FOREVER = math.inf


class Outcome(NamedTuple):
    """How one run of a container goes. Times in seconds.

    Attributes:
        exit_code: What it exits with, unless something ends it first.
        run_for: How long it runs; `FOREVER` until something ends it.
        logs: What it prints when it starts.
        reason: Of its end; empty for the usual word.
        message: Of its end.
        start_delay: How long it stays in ContainerCreating.
        ready_after: How long after its start it is ready.
        last_logs: What it prints when it ends of its own accord.
        ignore_sigterm: Whether only SIGKILL ends it early.
        term_exit_code: What it exits with on SIGTERM.
        image_error: When given, the container waits with this reason and never starts.
    """

    exit_code: int = 0
    run_for: float = 0.0
    logs: str = ""
    reason: str = ""
    message: str = ""
    start_delay: float = 0.0
    ready_after: float = 0.0
    last_logs: str = ""
    ignore_sigterm: bool = False
    term_exit_code: int = 143
    image_error: str = ""


OnRun = Callable[[RunnablePod, str, int], Outcome | None]


def default_outcome(pod: RunnablePod, container: Container, runtime_seconds: float) -> Outcome:
    """Return what an ordinary container does: a Job's ends well, any other runs until its pod is deleted.

    Args:
        pod: Its pod.
        container: The container; a shell that nobody gives a command ends at once.
        runtime_seconds: How long a Job's container runs.
    """
    owner = controller_of(pod.metadata)
    if container.restart_policy == "Always":
        return Outcome(run_for=FOREVER)
    if owner is not None and owner.kind == "Job":
        return Outcome(run_for=runtime_seconds)
    if is_idle_shell(container) or container in (pod.spec.init_containers or ()):
        return Outcome()
    return Outcome(run_for=FOREVER)


def annotated_outcome(pod: RunnablePod, container: str, attempt: int, otherwise: Outcome) -> Outcome:
    """Return what the pod's annotations say, and of what they do not mention, the default.

    Args:
        pod: The pod.
        container: The name; `sim.kcr.dev/run-for.main` holds for the container main alone.
        attempt: How often it has run before; a list of exit codes is used up one per run.
        otherwise: The default.

    Raises:
        ValueError: An annotation makes no sense; the message names it.
    """
    said = _said(pod.metadata.annotations, container)
    if not said:
        return otherwise
    changes: dict[str, object] = {}
    for name, text in said.items():
        if name not in _READERS:
            continue
        field, read = _READERS[name]
        try:
            changes[field] = read(text)
        except ValueError as error:
            raise ValueError(f"annotation {PREFIX}{name}: {error}") from error
    codes = said.get("exit-code")
    if codes is not None:
        changes["exit_code"] = _code_of(codes, attempt)
    by_index, index = said.get("by-index"), pod.metadata.annotations.get(INDEX_ANNOTATION)
    if by_index is not None and index is not None:
        changes["exit_code"] = _code_by_index(by_index, index, otherwise.exit_code)
    return otherwise._replace(**changes)  # type: ignore[arg-type]  # the table below pairs fields with readers


def _said(annotations: Mapping[str, str], container: str) -> dict[str, str]:
    """Return the annotations that hold for a container, without prefix and suffix; its own come first."""
    general: dict[str, str] = {}
    own: dict[str, str] = {}
    for key, value in annotations.items():
        if not key.startswith(PREFIX):
            continue
        name, _, suffix = key.removeprefix(PREFIX).partition(".")
        if suffix == container:
            own[name] = value
        elif not suffix:
            general[name] = value
    return general | own


def _seconds(text: str) -> float:
    """Return the seconds of a duration such as `1m30s`, of a bare number, or of `forever`."""
    if text == "forever":
        return FOREVER
    try:
        seconds = float(text) if text[-1:].isdigit() else parse_duration(text) / 1e9
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise ValueError(f"{text!r} is no duration")
    return seconds


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"


def _code_of(codes: str, attempt: int) -> int:
    """Return the code of this run; the last one of a list holds for all runs beyond it."""
    listed = codes.split(",")
    try:
        return int(listed[min(attempt, len(listed) - 1)])
    except ValueError:
        raise ValueError(f"annotation {PREFIX}exit-code: {codes!r} is no list of numbers") from None


def _code_by_index(pairs: str, index: str, otherwise: int) -> int:
    try:
        codes = dict(pair.split("=") for pair in pairs.split(",") if pair)
        return int(codes.get(index, otherwise))
    except ValueError:
        raise ValueError(f"annotation {PREFIX}by-index: {pairs!r} is no list of index=code") from None


_READERS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "start-delay": ("start_delay", _seconds),
    "run-for": ("run_for", _seconds),
    "ready-after": ("ready_after", _seconds),
    "reason": ("reason", str),
    "message": ("message", str),
    "termination-message": ("message", str),
    "logs": ("logs", str),
    "last-logs": ("last_logs", str),
    "ignore-sigterm": ("ignore_sigterm", _flag),
    "term-exit-code": ("term_exit_code", int),
    "image-error": ("image_error", str),
}
