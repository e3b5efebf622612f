"""`kcr explain`: why an object is in its state, and the steps that follow."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import click
import msgspec

from kcr.api.core import Event
from kcr.api.explanation import Code, Explanation, ago, in_time
from kcr.api.meta import Condition, Key
from kcr.api.unstructured import Unstructured
from kcr.app.plugins import find_explainers
from kcr.cli import options as shared
from kcr.cli.connection import connected, run_quietly
from kcr.cli.debug.port import DebugPort, debug_option, port_of
from kcr.cli.objects.inside import Inside, ask, ask_state, controllers_as_json, lines_of_controllers
from kcr.cli.objects.kinds.controllers import blocked_loop
from kcr.cli.objects.kinds.webhooks import GROUP, read_webhooks
from kcr.cli.objects.look import Shown, look
from kcr.cli.objects.screen import fitted, is_part_of
from kcr.cli.output import output_option, show
from kcr.cli.target import ObjectName, UnresolvedName, resolved
from kcr.client.explainers import last_seen
from kcr.clock import SystemClock
from kcr.errors import ConfigError, TransportError


@click.command(
    "explain",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when the object does not exist, the server cannot be used, or the --debug-address does "
    "not answer, 2 on a wrong option.",
)
@shared.object_argument
@shared.object_options
@debug_option
@shared.plugin_options("controllers", words={"controllers": "those installed"})
@output_option()
def command(name: ObjectName | UnresolvedName, output: str | None, **values: Any) -> int:
    """Explain why an object is where it is, and what comes next.

    For a Job or CronJob it makes the decision that the controller would make, from the state in the API server; a
    workload leads to the pod that is the cause, a namespace to the objects that block its deletion; of other kinds it
    reads deletion, conditions and owned objects. With a debug port, the controller itself reports its state: where the
    key is, its last error, the cause of a wait. Nothing is written.
    """
    return run_quietly(lambda: _explain(name, output, values))


class _Answer(NamedTuple):
    """The answer of the debug port; `complaint` is why a port that the user named gave none."""

    inside: Inside | None = None
    complaint: str = ""


async def _explain(named: ObjectName | UnresolvedName, output: str | None, values: Mapping[str, Any]) -> int:
    explainers = find_explainers(values["controllers"], _complain)
    async with connected(values) as found:
        port = values["debug_address"] or port_of(found.config)
        if port is not None and (blocked := await _blocked_server(port)) is not None:
            _complain(f"{blocked.headline}: {blocked.remedies[0]}")
            return 1
        name = await resolved(found.client, named)
        key = Key(found.namespace if name.kind.resource.namespaced else "", name.name)
        answer = await _ask(port, name, key)
        now, inside = SystemClock().now(), answer.inside
        shown = await look(found.client, name, key, now, explainers, inside)
        if shown.exists and (served := await _served_elsewhere(port, name)):
            config = await found.client.get(name.kind, key)
            assert isinstance(config, Unstructured)
            shown = shown._replace(explanation=await read_webhooks(found.client, config, (), now, served))
    if output:
        show(as_json(name, key, shown, inside), output)
    else:
        click.echo("\n".join(lines_of(name, key, shown, now, inside)))
    if answer.complaint:
        _complain(answer.complaint)
    return 0 if shown.exists and not answer.complaint else 1


def _complain(text: str) -> None:
    click.echo(f"kcr: {text}", err=True)


async def _blocked_server(port: DebugPort) -> Explanation | None:
    """Return that the API server cannot answer, because the event loop of its process is blocked; None otherwise."""
    try:
        state = await ask_state(port)
    except (TransportError, ConfigError):
        return None
    return None if state.process.server else blocked_loop(state, "the cluster does not answer")


async def _served_elsewhere(port: DebugPort | None, name: ObjectName) -> dict[Key, str]:
    """Return the URLs of services of webhooks that `kcr dev` was given with `--webhook-services`."""
    if port is None or name.kind.resource.group != GROUP:
        return {}
    try:
        options = msgspec.json.decode(await port.get("/options"), type=dict[str, Any])
        pairs = [one.partition("=") for one in str(options.get("webhook_services") or "").split(",") if one]
        return {Key.parse(service): url for service, _, url in pairs}
    except (TransportError, ConfigError, ValueError):
        return {}


async def _ask(port: DebugPort | None, name: ObjectName, key: Key) -> _Answer:
    if port is None:
        return _Answer()
    try:
        found = await ask(port, name.kind, key)
        # That of a kubeconfig was not asked for, so it is no news that it knows nothing.
        return _Answer(found if found.views or port.is_named else None)
    except* (TransportError, ConfigError) as group:
        complaint = str(group.exceptions[0]) if port.is_named else ""
    return _Answer(complaint=complaint)


def lines_of(name: ObjectName, key: Key, shown: Shown, now: datetime, inside: Inside | None = None) -> Iterator[str]:
    """Yield an explanation as lines for people.

    Args:
        name: The object as the user named it.
        key: Its namespace and name.
        shown: The shown parts of it.
        now: The moment at which it was read.
        inside: Its state in its controller; None when its debug port is not known.
    """
    explanation = shown.explanation
    yield from fitted(
        f"{name.kind.resource.kind.lower()} {key}: {explanation.headline}",
        [
            ("wanted", filter(None, [explanation.wanted])),
            ("present", filter(None, [explanation.present])),
            ("next", (f"{in_time(one.at, now)}: {one.text}" if one.at else one.text for one in explanation.steps)),
            ("why", explanation.reasons),
            ("remedy", explanation.remedies),
            (
                "controller",
                ()
                if inside is None
                else lines_of_controllers(
                    inside, explanation.reasons, has_ended=explanation.code in (Code.FINISHED, Code.FAILED)
                ),
            ),
            ("conditions", (_condition(one, now) for one in shown.conditions)),
            ("events", (_event(one, now) for one in shown.events if not is_part_of(one.message, explanation.reasons))),
        ],
    )


def _condition(condition: Condition, now: datetime) -> str:
    reason = f" ({condition.reason})" if condition.reason else ""
    return f"{condition.type}{reason}, {ago(condition.last_transition_time, now)}"


def _event(event: Event, now: datetime) -> str:
    times = f" (x{event.times})" if event.times > 1 else ""
    return f"{ago(last_seen(event), now):<9} {event.type} {event.reason}: {' '.join(event.message.split())}{times}"


def as_json(name: ObjectName, key: Key, shown: Shown, inside: Inside | None = None) -> dict[str, object]:
    """Return an explanation as one JSON object.

    Args:
        name: The object as the user named it.
        key: Its namespace and name.
        shown: The shown parts of it.
        inside: Its state in its controller, the array `controller`; None when its debug port is not known.
    """
    about = {"kind": name.kind.resource.kind, "namespace": key.namespace, "name": key.name, "exists": shown.exists}
    events = [
        {"type": one.type, "reason": one.reason, "message": one.message, "count": one.times, "lastSeen": last_seen(one)}
        for one in shown.events
    ]
    conditions = [{"type": one.type, "reason": one.reason, "message": one.message} for one in shown.conditions]
    return {
        **about,
        **msgspec.structs.asdict(shown.explanation),
        "controller": list(controllers_as_json(inside)),
        "conditions": conditions,
        "events": events,
    }
