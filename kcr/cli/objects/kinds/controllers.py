"""Explains an object by the state of its controllers: they fail, run for long, repeat themselves, or stand still."""

from collections.abc import Iterator
from datetime import timedelta

from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation
from kcr.cli.objects.inside import ControllerView, Inside
from kcr.refusals import denials_in, grant_remedy, refusal_of
from kcr.serving.debug.state import DebugState

# How long a reconcile may run, or wait for a worker, before that is worth the headline.
_LONG_SECONDS = 10.0
# From so much lag on, the event loop counts as blocked: below it, it may only be busy.
_BLOCKED_SECONDS = 1.0


def findings(inside: Inside) -> Iterator[Explanation]:
    """Yield the problems of an object's controllers, as their process reports them."""
    if inside.stands_by or not inside.views:
        return
    if (blocked := blocked_loop(inside.state, "waits")) is not None:
        yield blocked
    for view in inside.views:
        yield from filter(None, (_hot(view), _failing(view, inside), _slow(view), _queued(view)))


def blocked_loop(state: DebugState, effect: str) -> Explanation | None:
    """Return that the event loop of a process is blocked; None when it is not, or only busy for a moment.

    Args:
        state: The process.
        effect: The consequence for the object, the beginning of the headline.
    """
    loop = state.loop
    if not loop.blocked_at or loop.lag_seconds < _BLOCKED_SECONDS:
        return None
    whose = f"the event loop of {state.process.command}, pid {state.process.pid}"
    return Explanation(
        Code.EVENT_LOOP_BLOCKED,
        f"{effect}: {whose}, has been blocked for {_span(loop.lag_seconds)} at {loop.blocked_at}",
        reasons=("while that line runs, no key is reconciled and no watch is read",),
        remedies=("await what blocks, or give it a thread: await asyncio.to_thread(function, …)",),
    )


def _hot(view: ControllerView) -> Explanation | None:
    found = view.detail.hot_loop
    if found is None:
        return None
    cause = found.event.removeprefix("hot loop: ")
    headline = f"is reconciled without end by controller {view.detail.controller} (hot loop): {cause}"
    return Explanation(Code.HOT_LOOP, headline, reasons=(found.place,) if found.place else (), remedies=(found.remedy,))


def _failing(view: ControllerView, inside: Inside) -> Explanation | None:
    state, name = view.detail.state, view.detail.controller
    if not state.error:
        return None
    how = f", {state.retries} times in a row" if state.retries > 1 else ""
    if not state.retries and state.phase == "idle":
        how = ", and does not retry it (TerminalError)"
    headline = f"controller {name} fails{how}: {state.error}"
    denials = denials_in(state.error)
    if denials:
        user, text = denials[0].user, _all_errors(inside)
        missing = tuple(dict.fromkeys((*denials, *(one for one in denials_in(text) if one.user == user))))
        headline = f"controller {name} lacks the right to {denials[0].verb} {denials[0].resource}"
        return Explanation(Code.REFUSED, headline, remedies=(grant_remedy(missing, view.detail.plugin),))
    if "webhook" in state.error or "is forbidden" in state.error:
        namespace = state.key.rpartition("/")[0]
        found = refusal_of(state.error, namespace=namespace, resource="", change="change what is created to one")
        return Explanation(Code.REFUSED, headline, remedies=(found.remedy,), webhook=found.webhook)
    if state.phase == "parked":
        kind = next((one.kinds[0] for one in inside.state.controllers if one.name == name and one.kinds), "KIND")
        remedy = f"change its spec, or reconcile it once more: {_reconcile_command(kind, state.key)}"
        return Explanation(Code.RECONCILE_ERROR, f"{headline}; it is parked (max_retries)", remedies=(remedy,))
    return Explanation(Code.RECONCILE_ERROR, headline)


def _reconcile_command(kind: str, key: str) -> str:
    namespace, _, name = key.rpartition("/")
    return f"kcr reconcile {kind}/{name}" + (f" -n {namespace}" if namespace else "")


def _all_errors(inside: Inside) -> str:
    texts = [group.text for controller in inside.state.controllers for group in controller.errors]
    return "\n".join([*texts, *(informer.last_error for informer in inside.state.informers)])


def _slow(view: ControllerView) -> Explanation | None:
    """Its reconcile runs for long."""
    running = view.running
    if running is None or running.seconds < _LONG_SECONDS:
        return None
    return Explanation(
        Code.SLOW_RECONCILE,
        f"has been in a reconcile of controller {view.detail.controller} for {_span(running.seconds)}, "
        f"at {running.at or 'an unknown line'}",
        remedies=("give the call a timeout: async with asyncio.timeout(10)",),
    )


def _queued(view: ControllerView) -> Explanation | None:
    """It waits for a worker for long."""
    state, busy = view.detail.state, view.busy
    if state.phase != "queued" or busy is None or (state.queued_seconds or 0) < _LONG_SECONDS:
        return None
    return Explanation(
        Code.SLOW_RECONCILE,
        f"waits for a worker of controller {view.detail.controller} for {_span(state.queued_seconds or 0)}: "
        f"all are busy, the longest for {_span(busy.seconds)} with {busy.key}",
        remedies=("see whether that one hangs; more workers: workers=… of add_controller, --workers of kcr run",),
    )


def _span(seconds: float) -> str:
    return human_duration(timedelta(seconds=max(seconds, 0)))
