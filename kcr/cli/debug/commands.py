"""`kcr debug`: an archive for a report, a profile, stacks, keys, events and caches of a running process."""

import io
import tarfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import click
import msgspec

from kcr.api.explanation import counted
from kcr.cli.connection import run_quietly
from kcr.cli.debug.port import REMEDY, SECONDS, DebugPort, debug_option, fetch, parse_address, port_of, without_secrets
from kcr.cli.output import output_option, show, write_output
from kcr.cli.version import versions
from kcr.client import load_config
from kcr.clock import SystemClock
from kcr.errors import ConfigError, KcrError
from kcr.informer.verification import VERIFY_SECONDS, Verified
from kcr.log.lines import printable
from kcr.serving.debug.state import DebugState
from kcr.stacks import IDLE, MAX_PROFILE_SECONDS

# Files of the archive besides those made from the state: file, path, and description.
_PAGES = (
    ("options.json", "/options", "the options that the process runs with"),
    ("stacks.txt", "/stacks", "where its threads and tasks are"),
)
_MANIFEST = "MANIFEST"


class ArchiveFile(NamedTuple):
    """A file of the archive; without content it was not to be had.

    Attributes:
        name: The file's name.
        what: A description of it.
        content: The text; None when it was not to be had.
        why_not: Why it was not.
    """

    name: str
    what: str
    content: str | None
    why_not: str = ""


class MetricsPlace(NamedTuple):
    """Where the metrics of a process are; without a URL, why that is not known."""

    url: str
    why_not: str = ""


async def collect(port: DebugPort, metrics: "MetricsPlace") -> list[ArchiveFile]:
    """Read the complete state of a process.

    Args:
        port: Its debug port.
        metrics: Where its metrics are.

    Raises:
        KcrError: The debug port does not answer, or is one of another version.
    """
    body = await port.get("/state")
    state = read_state(port, body)
    process = state.process
    told = {"process": {"kcr": process.version, "Python": process.python, "command": process.command}}
    parts = [
        ArchiveFile(
            "versions.json", "the versions of the process, and of this program", _pretty({**told, "here": versions()})
        ),
        ArchiveFile("state.json", "informers, queues, keys in trouble, leadership", _pretty(msgspec.json.decode(body))),
        ArchiveFile("errors.txt", "the last errors", "".join(f"{line}\n" for line in errors_of(state))),
    ]
    for name, path, what in _PAGES:
        parts.append(await _part(name, what, f"{port.url}/debug/kcr{path}", port.token))
    if metrics.url:
        parts.append(await _part("metrics.txt", "its metrics", metrics.url, ""))
    else:
        parts.append(ArchiveFile("metrics.txt", "its metrics", None, metrics.why_not))
    return [part if part.content is None else part._replace(content=without_secrets(part.content)) for part in parts]


def read_state(port: DebugPort, body: bytes) -> DebugState:
    """Return the state that a debug port has answered.

    Raises:
        ConfigError: It is one of another version.
    """
    try:
        return msgspec.json.decode(body, type=DebugState)
    except ValueError as error:
        raise ConfigError(f"the debug port {port.url} cannot be read: {error}: use the same version of kcr") from error


async def _part(name: str, what: str, url: str, token: str) -> ArchiveFile:
    try:
        return ArchiveFile(name, what, (await fetch(url, token=token)).decode(errors="replace"))
    except KcrError as error:
        return ArchiveFile(name, what, None, str(error))


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


def errors_of(state: DebugState) -> Iterator[str]:
    """Yield the errors that a state has, one a line: of informers, then of keys, each with its age if it has one."""
    for check in state.process.not_ready:
        yield f"not ready: {check}"
    for informer in state.informers:
        if informer.last_error:
            yield f"informer {informer.kind}: {informer.last_error}"
    for controller in state.controllers:
        for group in controller.errors:
            yield f"controller {controller.name}: {group.keys} keys, such as {', '.join(group.examples)}: {group.text}"
        for run in controller.recent:
            if run.outcome == "error":
                yield f"controller {controller.name}: {run.key}, {run.seconds_ago:.0f} s ago: {run.text}"


def manifest(parts: list[ArchiveFile], url: str, now: datetime) -> str:
    """Return the list of the archive's contents and missing parts."""
    lines = [f"kcr debug dump of {url} at {now:%Y-%m-%dT%H:%M:%SZ}", ""]
    for part in parts:
        found = f"not to be had: {part.why_not}" if part.content is None else f"{len(part.content.encode())} bytes"
        lines.append(f"{part.name:<15}{part.what}: {found}")
    lines += [
        "",
        "No object is in it but names, namespaces and what errors say of them; what looks like a token, a password or",
        "a private key is left out. Read it before you hand it on.",
    ]
    return "\n".join(lines) + "\n"


def packed(parts: list[ArchiveFile], text: str, folder: str, now: datetime) -> bytes:
    """Return the archive, a .tar.gz.

    Args:
        parts: The files; those without content are left out.
        text: The manifest.
        folder: The folder that all are in.
        now: The time of the files.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in ((_MANIFEST, text), *((part.name, part.content) for part in parts)):
            if content is not None:
                body, info = content.encode(), tarfile.TarInfo(f"{folder}/{name}")
                info.size, info.mtime, info.mode = len(body), int(now.timestamp()), 0o600
                archive.addfile(info, io.BytesIO(body))
    return buffer.getvalue()


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_CODES = "Exit codes: 0, 1 when the debug port cannot be used, 2 on a wrong option."
_VERIFY_CODES = "Exit codes: 0, 1 for differences or when the debug port cannot be used, 2 on a wrong option."
# Only its owner may read the file.
_PRIVATE = 0o600
# Of a profile, beside its own time.
_MARGIN_SECONDS = 10.0


class _Question(NamedTuple):
    """A question to the debug port: its path and query, and how long the answer may take."""

    path: str
    query: Mapping[str, str]
    seconds: float = SECONDS


# The most keys that the port returns; parked ones come first.
_STATE = _Question("/state", {"keys": "10000"})
# Of the events that a predicate has dropped, so many are shown.
_LAST = 10
# Of a profile, so many functions are shown.
_TOP = 10


@click.group("debug")
def command() -> None:
    """Inspect a running kcr.

    It answers at its probe port (--health-probe-bind-address), to this machine alone: forward that of a pod with
    `kubectl -n NAMESPACE port-forward POD 8081`. That of `kcr dev` is found by its kubeconfig.
    """


def _connection_options(function: F) -> F:
    kubeconfig = click.option(
        "--kubeconfig", metavar="FILE", envvar="KCR_KUBECONFIG", show_envvar=True,
        show_default="KUBECONFIG, ~/.kube/config", help="Kubeconfig of `kcr dev`.",
    )  # fmt: skip
    context = click.option(
        "--context", metavar="NAME", envvar="KCR_CONTEXT", show_envvar=True, show_default="its current one",
        help="Context of the kubeconfig.",
    )  # fmt: skip
    return debug_option(kubeconfig(context(function)))


def _port(values: Mapping[str, Any]) -> DebugPort:
    """Return the debug port of the options.

    Raises:
        ConfigError: None is known.
    """
    if values["debug_address"] is not None:
        named: DebugPort = values["debug_address"]
        return named
    try:
        # Nothing is sent to its API server, so no credential plugin runs.
        found = port_of(load_config(values["kubeconfig"], values["context"], exec_plugins="always"))
    except ConfigError:
        if values["kubeconfig"] or values["context"]:
            raise
        found = None
    if found is None:
        raise ConfigError(f"no debug port is known: {REMEDY}")
    return found


@command.command("stacks", short_help="Print where threads and tasks are.", epilog=_CODES)
@_connection_options
def stacks(**values: Any) -> int:
    """Print where the threads and tasks of the process are, also while its event loop is blocked."""
    port = _port(values)

    async def show() -> int:
        click.echo(await port.get("/stacks"), nl=False)
        return 0

    return run_quietly(show)


@command.command("profile", short_help="Print what takes the event loop's time.", epilog=_CODES)
@click.argument("seconds", type=click.IntRange(1, MAX_PROFILE_SECONDS))
@_connection_options
@click.option(
    "-o", "--output", metavar="FILE", default="",
    help="File for the collapsed stacks, which speedscope.app and flamegraph.pl read; - for stdout.",
)  # fmt: skip
def profile(seconds: int, output: str, **values: Any) -> int:
    """Sample the event loop's thread for some SECONDS, and print the functions that take most of its time."""
    port = _port(values)

    async def show() -> int:
        body = await port.get("/profile", {"seconds": str(seconds)}, seconds + _MARGIN_SECONDS)
        if output:
            write_output(output, body, mode=_PRIVATE)
        click.echo("\n".join(table_of(body.decode(errors="replace"))), err=bool(output))
        return 0

    return run_quietly(show)


@command.command("parked", short_help="List the keys that are no longer retried.", epilog=_CODES)
@_connection_options
@output_option()
def parked(**values: Any) -> int:
    """List the keys that have failed too often (max_retries) and are no longer retried, with their last errors."""
    return _show(values, _STATE, DebugState, parked_lines, parked_keys)


@command.command("verify", short_help="Compare the caches with the API server.", epilog=_VERIFY_CODES)
@click.argument("kinds", nargs=-1, metavar="[KIND …]")
@_connection_options
@output_option()
def verify(kinds: tuple[str, ...], **values: Any) -> int:
    """Compare the caches of the process with the API server, object by object at one version, in pages.

    KIND is a resource with its group, as in `jobs.batch`; all by default.
    """
    question = _Question("/verify", {"kinds": " ".join(kinds)}, VERIFY_SECONDS)
    return _show(values, question, list[Verified], verified_lines)


def verified_lines(found: Collection[Verified]) -> Iterator[str]:
    """Yield a line for each selection, and one for each difference."""
    for one in found:
        verdict = counted(len(one.differences), "difference") if one.differences else "as the server has them"
        if one.version:
            yield f"{one.selection}: {counted(one.objects, 'object')} at version {one.version}, {verdict}"
        yield from (f"  {text}" if one.version else f"{one.selection}: {text}" for text in one.differences)
    if not found:
        yield "no cache of this kind: add its group, as in jobs.batch"


@command.command("dropped", short_help="List the watch events that predicates have dropped.", epilog=_CODES)
@click.argument("objects", nargs=-1, metavar="[NAMESPACE/NAME …]")
@_connection_options
def dropped(objects: tuple[str, ...], **values: Any) -> int:
    """List the watch events that predicates have dropped: of each predicate how many, and the last ones.

    With NAMESPACE/NAME of objects, only those of them.
    """
    return _show(values, _STATE, DebugState, lambda state: dropped_lines(state, objects))


def _show(
    values: Mapping[str, Any], question: _Question, kind: type[T], lines_of: Callable[[T], Iterator[str]],
    as_json: Callable[[T], object] = lambda found: found,
) -> int:  # fmt: skip
    """Print what the debug port says, with `-o json|yaml` as an object, and return 1 if a difference is in it."""
    port = _port(values)

    async def ask() -> int:
        body = await port.get(*question)
        try:
            found = msgspec.json.decode(body, type=kind)
        except ValueError as error:
            raise ConfigError(f"the debug port cannot be read: {error}: use the same version of kcr") from error
        if form := values.get("output"):
            show(as_json(found), form)
        else:
            click.echo("\n".join(map(printable, lines_of(found))))
        return int(isinstance(found, list) and any(one.differences for one in found))

    return run_quietly(ask)


def dropped_lines(state: DebugState, objects: Collection[str] = ()) -> Iterator[str]:
    """Yield a line for each predicate that has dropped events, and below it the last ones: `object versions, age`."""
    found = False
    for one in state.controllers:
        for place in one.dropped:
            last = [text for text in place.last if not objects or text.partition(" ")[0] in objects]
            if last or not objects:
                found = True
                yield f"{one.name}: {place.predicate} dropped {counted(place.count, 'event')} of {place.kind}"
                yield from (f"  {text}" for text in last[: None if objects else _LAST])
    if not found:
        yield f"no predicate has dropped an event{' of these objects lately' if objects else ''}"


def parked_lines(state: DebugState) -> Iterator[str]:
    """Yield a line for each parked key: its controller, its failures in a row, the last error."""
    found = parked_keys(state)
    for one in found:
        yield f"{one['controller']}: {one['key']}, {counted(one['failures'], 'failure')} in a row: {one['error']}"
    if not found:
        yield "no key is parked"


def parked_keys(state: DebugState) -> list[dict[str, Any]]:
    """Return the parked keys as JSON shows them."""
    return [
        {"controller": one.name, "key": key.key, "failures": key.retries, "error": key.error}
        for one in state.controllers
        for key in one.keys
        if key.phase == "parked"
    ]


@command.command("dump", short_help="Write one archive for a report.", epilog=_CODES)
@_connection_options
@click.option(
    "--metrics-address", metavar="HOST:PORT", envvar="KCR_METRICS_ADDRESS", show_envvar=True,
    show_default="the port of --metrics-bind-address, on the same host", help="Where the metrics are.",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="FILE", default="", show_default="kcr-debug-TIME.tar.gz", help="The file; - for stdout."
)
def dump(metrics_address: str | None, output: str, **values: Any) -> int:
    """Write one archive for a report: versions, options, state, last errors, stacks and metrics, without secrets."""
    port, now = _port(values), SystemClock().now()
    folder = f"kcr-debug-{now:%Y%m%dT%H%M%SZ}"

    async def write() -> int:
        parts = await collect(port, await _metrics_of(port, metrics_address))
        body = packed(parts, manifest(parts, port.url, now), folder, now)
        path = output or f"{folder}.tar.gz"
        write_output(path, body, mode=_PRIVATE)
        click.echo("\n".join(_summary(path, parts, len(body))), err=True)
        return 0

    return run_quietly(write)


async def _metrics_of(port: DebugPort, named: str | None) -> MetricsPlace:
    if named:
        return MetricsPlace(f"{parse_address(named).url}/metrics")
    unknown = MetricsPlace("", "the process serves none at a known port: name it with --metrics-address")
    try:
        options = msgspec.json.decode(await port.get("/options"), type=_MetricsOptions)
    except (KcrError, ValueError):
        return unknown
    if options.metrics_secure:
        return MetricsPlace("", "they are for those who may get /metrics, over HTTPS: add them with curl")
    _, _, number = (options.metrics_bind_address or "").rpartition(":")
    url = urlsplit(port.url)
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    return MetricsPlace(f"http://{host}:{number}/metrics") if number.isdecimal() and int(number) else unknown


class _MetricsOptions(msgspec.Struct):
    metrics_bind_address: str | None = None
    metrics_secure: bool = False


def _summary(path: str, parts: list[ArchiveFile], size: int) -> list[str]:
    there = [part.name for part in parts if part.content is not None]
    missing = [f"not to be had: {part.name}: {part.why_not}" for part in parts if part.content is None]
    return [f"wrote {path}, {size} bytes: {', '.join(there)}", *missing]


class Share(NamedTuple):
    """How much of a profile a function has.

    Attributes:
        function: The function, as the stacks have it.
        own: The samples in which it is the innermost.
        total: Those in which it is at all.
    """

    function: str
    own: int
    total: int


def shares_of(collapsed: str) -> tuple[int, list[Share]]:
    """Return how many samples collapsed stacks have, and the functions, those with most samples of their own first.

    Args:
        collapsed: Lines `a;b;c 12`, as flame graphs are made of; others are passed over.
    """
    own, total = Counter[str](), Counter[str]()
    for line in collapsed.splitlines():
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isdecimal():
            continue
        frames = stack.split(";")
        own[frames[-1]] += int(count)
        # A recursive function counts once.
        for frame in set(frames):
            total[frame] += int(count)
    shares = [Share(function, own[function], samples) for function, samples in total.items()]
    return sum(own.values()), sorted(shares, key=lambda share: (-share.own, -share.total, share.function))


def table_of(collapsed: str) -> list[str]:
    """Return the functions with most samples as lines of a table."""
    samples, shares = shares_of(collapsed)
    if not samples:
        return ["no samples: the profile is empty"]
    idle = sum(share.own for share in shares if share.function == IDLE)
    if idle == samples:
        return [f"{samples} samples, all of them idle: the event loop had nothing to do"]
    shown = [share for share in shares if share.own and share.function != IDLE][:_TOP]
    lines = [f"{share.own / samples:>6.1%} {share.total / samples:>7.1%}  {share.function}" for share in shown]
    waited = f", {idle / samples:.1%} of them idle" if idle else ""
    return [f"{samples} samples{waited}", f"{'OWN':>6} {'TOTAL':>7}  FUNCTION", *lines]
