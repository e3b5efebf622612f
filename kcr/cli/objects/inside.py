"""The state of an object in its controllers: read at their debug port, and put into text."""

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec

from kcr.api.durations import human_duration
from kcr.api.explanation import Explanation, counted
from kcr.api.meta import Key, Resource
from kcr.cli.debug.port import DebugPort
from kcr.cli.objects.screen import is_part_of
from kcr.errors import ConfigError
from kcr.serving.debug.state import ControllerState, DebugState, KeyDetail, KeyState, RunningState

T = TypeVar("T")

# So many reasons and writes are named; of the others the count says enough.
_NAMED = 3


class ControllerView(NamedTuple):
    """The state of one key in one controller.

    Attributes:
        detail: The key there.
        running: Its reconcile that is running; None when none is.
        busy: The reconcile that keeps all workers busy, so that a queued key waits; None when a worker is free.
        is_sharded: Whether, under sharding, the controller reconciles a share of the keys.
        dropped: The last events of the object that predicates have dropped.
    """

    detail: KeyDetail
    running: RunningState | None
    busy: RunningState | None = None
    is_sharded: bool = True
    dropped: tuple[str, ...] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether the key is idle, and nothing is the matter with it."""
        detail = self.detail
        known = (detail.state.error, detail.unconfirmed, detail.hot_loop, detail.explanation_error)
        return detail.state.phase == "idle" and not any(known)

    @property
    def only_waits(self) -> bool:
        """Whether the key waits for a time that a reconcile asked for, and nothing is the matter with it."""
        return self.detail.state.phase == "delayed" and not self.detail.state.error and self.running is None


class Inside(NamedTuple):
    """The state of one key in a process.

    Attributes:
        state: The process.
        views: Its controllers whose keys name objects of this kind.
        is_asked: Whether the user has named its debug port; else it was found in a kubeconfig.
        is_elsewhere: Whether another replica has the object's shard.
    """

    state: DebugState
    views: tuple[ControllerView, ...]
    is_asked: bool = True
    is_elsewhere: bool = False

    @property
    def stands_by(self) -> bool:
        """Whether another replica leads, or has the object's shard: then this one has no memory of the object."""
        if self.is_elsewhere:
            return True
        return self.state.leadership is not None and not self.state.leadership.is_leading

    @property
    def explanation(self) -> Explanation | None:
        """Why the object is where it is, as its controller knows; None when none says so, or another replica leads."""
        if self.stands_by:
            return None
        found = (view.detail.explanation for view in self.views)
        return next(filter(None, (_converted(one) for one in found if one is not None)), None)


def _converted(explanation: Mapping[str, object]) -> Explanation | None:
    try:
        return msgspec.convert(explanation, Explanation)
    except msgspec.ValidationError:
        # A reconciler of some other version or making; the explanation from outside is right all the same.
        return None


async def ask(port: DebugPort, kind: type[Resource], key: Key) -> Inside:
    """Read the state of an object in a process.

    Raises:
        TransportError: Nothing answers.
        ConfigError: The server there is no debug port, or one of another version.
    """
    async with asyncio.TaskGroup() as group:
        state_task = group.create_task(ask_state(port))
        key_task = group.create_task(port.get("/key", {"key": str(key), "kind": kind.resource.display}))
    state, details = state_task.result(), _decoded(port, key_task.result(), tuple[KeyDetail, ...])
    # A controller that only watches objects of this kind has other keys.
    keyed = {one.name: one for one in state.controllers if one.kinds[:1] == (kind.resource.display,)}
    views = [_view(one, keyed[one.controller]) for one in details if one.controller in keyed]
    return Inside(state, tuple(views), port.is_named)


async def ask_state(port: DebugPort) -> DebugState:
    """Read the state of a process, without its keys; see `ask`."""
    return _decoded(port, await port.get("/state", {"keys": "0"}), DebugState)


def _decoded(port: DebugPort, body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except ValueError as error:
        raise ConfigError(f"the debug port {port.url} cannot be read: {error}: use the same version of kcr") from error


def _view(detail: KeyDetail, controller: ControllerState) -> ControllerView:
    running = controller.running
    own = next((one for one in running if one.key == detail.state.key), None)
    busy = running[0] if running and len(running) >= controller.workers else None
    key = f"{detail.state.key} "
    dropped = tuple(
        f"{place.predicate} dropped an event: {text.removeprefix(key)}"
        for place in controller.dropped if place.kind == controller.kinds[0]
        for text in place.last if text.startswith(key)
    )  # fmt: skip
    return ControllerView(detail, own, busy, controller.is_sharded, dropped)


def lines_of_controllers(inside: Inside, told: Sequence[str] = (), *, has_ended: bool = False) -> Iterator[str]:
    """Yield the controllers' state for people: where the key is, its last error, its unconfirmed writes.

    Those with nothing to say are left out, and if all are, one is shown only where the port was named.

    Args:
        inside: The state of their process.
        told: What is said already; an error that it quotes is left out.
        has_ended: Whether the object is finished: then it waits for nothing that matters.
    """
    process = inside.state.process
    shown = [view for view in inside.views if not view.is_quiet and not (has_ended and view.only_waits)]
    who = f"{process.command} {process.version}, pid {process.pid}{_leadership(inside)}"
    if not inside.views:
        yield f"no controller of {who} has keys of this kind"
        return
    if not shown and (has_ended or not inside.is_asked):
        return
    for view in shown or _best(inside.views):
        yield f"{view.detail.controller}: {phase_text(view)}"
        yield from _details(view, told)
    yield f"at {who}"


def _best(views: Sequence[ControllerView]) -> Sequence[ControllerView]:
    return [max(views, key=lambda view: -view.detail.runs[0].seconds_ago if view.detail.runs else -math.inf)]


def _leadership(inside: Inside) -> str:
    leadership, sharding = inside.state.leadership, inside.state.sharding
    if sharding is not None:
        return f", holds shards {sharding.held} of {sharding.shards}" if sharding.held else ", holds no shard"
    if leadership is None:
        return ""
    return ", leads" if leadership.is_leading else f", stands by: {leadership.holder or 'no replica'} leads"


def phase_text(view: ControllerView) -> str:
    """Return where a key is in a controller, and for how long: `queued for 3s at priority 0`."""
    state, running = view.detail.state, view.running
    if running is not None:
        # Its phase is `processing`; the time tells that it was added meanwhile.
        again = ", and queued again" if state.queued_seconds is not None else ""
        return f"running for {_span(running.seconds)} at {running.at or 'an unknown line'}{again}"
    match state.phase:
        case "queued":
            since = "" if state.queued_seconds is None else f" for {_span(state.queued_seconds)}"
            because = f" ({', '.join(state.reasons[:_NAMED])})" if state.reasons else ""
            return f"queued{since} at priority {state.priority}{because}"
        case "backoff":
            return f"in backoff after {counted(state.retries, 'failure')} in a row: retried {_due(state)}"
        case "delayed":
            return f"waits for a time that a reconcile asked for: queued {_due(state)}"
        case "deferred" | "waiting":
            deferred = "deferred, " if state.phase == "deferred" else ""
            return f"{deferred}waits for {', '.join(state.waits_for) or 'its store'}"
        case "paused" | "parked":
            after = f" after {counted(state.retries, 'failure')} in a row" if state.phase == "parked" else ""
            return f"{state.phase}{after}: it is not reconciled"
        case "processing":
            return "running"
        case _:
            return f"{state.phase}: nothing is queued{_last(view.detail)}"


def _details(view: ControllerView, told: Sequence[str]) -> Iterator[str]:
    detail, busy = view.detail, view.busy
    if detail.state.phase == "queued" and busy is not None and view.running is None:
        yield f"all workers are busy, the longest for {_span(busy.seconds)} with {busy.key} at {busy.at}"
    failed = next((run for run in detail.runs if run.outcome == "error"), None)
    error = detail.state.error
    if error and not is_part_of(error.partition(": ")[2], told):
        when = "" if failed is None else f", {_span(failed.seconds_ago)} ago"
        yield f"last error{when}: {error}"
    if detail.unconfirmed:
        left = len(detail.unconfirmed) - _NAMED
        more = f" and {left} more" if left > 0 else ""
        yield f"not confirmed: {', '.join(detail.unconfirmed[:_NAMED])}{more}"
    if detail.explanation_error:
        yield f"does not explain it: {detail.explanation_error}"
    yield from view.dropped[:_NAMED]


def _due(state: KeyState) -> str:
    return "now" if not state.due_seconds or state.due_seconds < 1 else f"in {_span(state.due_seconds)}"


def _last(detail: KeyDetail) -> str:
    if not detail.runs:
        return ""
    last = detail.runs[0]
    text = f", {last.text}" if last.text and last.text != detail.state.error else ""
    return f"; last reconciled {_span(last.seconds_ago)} ago: {last.outcome}{text}"


def _span(seconds: float) -> str:
    return human_duration(timedelta(seconds=max(seconds, 0)))


def controllers_as_json(inside: Inside | None) -> Iterable[dict[str, Any]]:
    """Yield the controllers' state for programs: fields named as at the debug port."""
    if inside is None:
        return
    process, leadership = inside.state.process, inside.state.leadership
    about = {
        "command": process.command, "version": process.version, "pid": process.pid,
        "leading": None if leadership is None else leadership.is_leading,
        "leader": None if leadership is None else leadership.holder,
    }  # fmt: skip
    for view in inside.views:
        yield {**msgspec.to_builtins(view.detail), "running": msgspec.to_builtins(view.running), "process": about}
