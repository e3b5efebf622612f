"""The names in rows of wrong inputs: right values to begin with, and helpers that return what a program prints."""

import asyncio
import io
import os
import random
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import msgspec
from msgspec.structs import replace
from structlog.testing import capture_logs

import kcr
import kcr.client
import kcr.dependents
import kcr.testing
import kcr.workqueue
from kcr import Client
from kcr.api.apps import Deployment
from kcr.api.batch import Job
from kcr.api.core import ConfigMap, Pod, Secret
from kcr.app.faults import run_command
from kcr.app.logs import configure_logs
from kcr.app.plugins import attach
from kcr.clock import SystemClock
from kcr.testing import FakeInformer, FakeManager, FakeSource, build
from kcr_devcluster.cluster import EmbeddedCluster, FaultRule, ListenerFaults
from kcr_devcluster.testing.requests import SeenRequests

# For the rows alone.
USED = (
    Annotated, build, ConfigMap, datetime, Deployment, EmbeddedCluster, FaultRule, Job, ListenerFaults, Literal,
    partial, Path, Secret, SeenRequests, timedelta, UTC,
)  # fmt: skip


class SiteSpec(kcr.Object):
    image: str = ""


class Site(kcr.Resource, api_version="example.dev/v1", plural="sites"):
    """A kind."""

    spec: SiteSpec = SiteSpec()


class SiteV2(kcr.Resource, api_version="example.dev/v2", plural="sites", kind="Site"):
    """Another version of it."""


class Nameless(kcr.Resource):
    """A class without an api_version: it is not a kind."""


class Worker:
    """A reconciler."""

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        return kcr.Result()


class Plain:
    """Its `async` was forgotten."""

    def reconcile(self, key: kcr.Key) -> kcr.Result:
        return kcr.Result()


class Yielding:
    async def reconcile(self, key: kcr.Key) -> Any:
        yield kcr.Result()


class Generating:
    def reconcile(self, key: kcr.Key) -> Any:
        yield kcr.Result()


class Many:
    """It takes an object, as reconcilers of other libraries do."""

    async def reconcile(self, key: kcr.Key, obj: Site) -> kcr.Result:
        return kcr.Result()


class Quiet:
    async def reconcile(self) -> kcr.Result:
        return kcr.Result()


class Webhook:
    def validate_create(self, obj: Site, request: kcr.WebhookRequest) -> None: ...


class Validating:
    """A webhook that returns what it is told."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def validate_create(self, obj: Site, request: kcr.WebhookRequest) -> Any:
        return self._result


class Defaulting:
    """A webhook that returns what it is told."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def default(self, obj: Site, request: kcr.WebhookRequest) -> Any:
        return self._result


class Delegating:
    """A reconciler that returns, raises or calls what it is told."""

    def __init__(self, result: Any) -> None:
        self._result = result

    async def reconcile(self, key: kcr.Key) -> Any:
        if isinstance(self._result, Exception):
            raise self._result
        is_function = callable(self._result) and not isinstance(self._result, type)
        return await self._result(key) if is_function else self._result


def limiter(delay: Any) -> Any:
    """Return a rate limiter that returns what it is told."""
    methods = {"when": lambda self, key: delay, "retries": lambda self, key: 0, "forget": lambda self, key: None}
    return type("Limiter", (), methods)()


class Class:
    """Any class."""


class Options(msgspec.Struct, frozen=True):
    """The options of a setup function."""

    tries: int = 3


async def go(*arguments: Any) -> None:
    """Any coroutine function."""


async def explained(*arguments: Any) -> Any:
    """Any function that explains."""


@cache
def cluster() -> kcr.client.SyncClient:
    """A client whose methods block, of a server that does not exist."""
    config = kcr.client.ClusterConfig(server="https://127.0.0.1:1")
    return kcr.client.SyncClient(kcr.client.HttpTransport(config), "default")


def plain(*arguments: Any) -> None:
    """Any function."""


def named(obj: Any) -> str:
    """A function that returns a string, and says so."""
    return str(obj.metadata.name)


def annotated(result: Any, method: str = "validate_create") -> Any:
    """Return a webhook with a method that says that it returns so."""

    def review(self: Any, obj: Site, request: kcr.WebhookRequest) -> Any: ...

    review.__annotations__["return"] = result
    return type("Review", (), {method: review})()


def typed(result: Any = Any, *arguments: Any) -> Any:
    """Return a function whose annotations say that it takes and returns values of these types."""
    names = [f"argument_{number}" for number in range(len(arguments) or 1)]
    made = eval(f"lambda {', '.join(names)}: None")
    made.__name__, made.__annotations__ = "typed", {**dict(zip(names, arguments, strict=False)), "return": result}
    return made


def yielding(*arguments: Any) -> Any:
    """A function that yields."""
    yield 1


async def yielding_async(*arguments: Any) -> Any:
    """A coroutine function that yields."""
    yield 1


class Called:
    """An object that is called like a function."""

    async def __call__(self, obj: Site) -> tuple[kcr.Key, ...]:
        return (obj.key,)


class Taking:
    """Its reconcile takes an object, as those of other libraries do, and says so."""

    async def reconcile(self, obj: Site) -> kcr.Result:
        return kcr.Result()


class Returning:
    """Its reconcile says that it returns something else."""

    async def reconcile(self, key: kcr.Key) -> bool:
        return True


def explaining(explain: Any) -> Any:
    """Return a reconciler with a second method."""
    return type("Explaining", (Worker,), {"explain": explain})()


class Mixin:
    """A class whose objects have a dictionary."""


class Model:
    """A class of values that msgspec does not know, as those of other libraries are."""


class WebStatus(kcr.Object):
    ready: int = 0
    share: float = 1.0


class Web(kcr.Resource, api_version="example.dev/v1", plural="webs"):
    """A kind with a status."""

    spec: SiteSpec = SiteSpec()
    status: WebStatus = WebStatus()


async def on_web(call: Any) -> Any:
    """Call a function with a client of a server that has a Web."""
    client = FakeManager(kinds=[Web]).client
    web = await client.create(Web(metadata=site.metadata))
    return await call(client, web)


async def cleaned(cleanup: Any) -> Any:
    """Clean up a Site that is being deleted."""
    client = FakeManager(kinds=[Site]).client
    await client.create(replace(site, metadata=replace(site.metadata, finalizers=("example.dev/dns",))))
    await client.delete(Site, key)
    return await kcr.finalized(client, await client.get(Site, key), "example.dev/dns", cleanup)


def setup(manager: kcr.Manager) -> None:
    """A setup function."""
    manager.add_controller("web", Worker(), watches=[kcr.watch(Site)])


key = kcr.Key("default", "web")
site = Site(metadata=kcr.ObjectMeta(name="web", namespace="default"))
stored = replace(site, metadata=replace(site.metadata, uid="u-1", resource_version="7"))
ready = kcr.Condition(type="Ready", status="True")
now = datetime(2026, 1, 1, tzinfo=UTC)
dice = random.Random(0)


def client() -> Client:
    """Return a client of a server that answers nothing but lists of Sites."""
    return Client(FakeSource(Site))


def manager(**options: Any) -> kcr.Manager:
    return kcr.Manager(client(), **options)


def controller() -> kcr.Controller:
    return kcr.Controller("web", Worker(), random=dice)


def fake(*kinds: Any) -> FakeManager:
    """Return a manager with a server of its own."""
    return FakeManager(kinds=kinds or [Site])


def informer() -> "FakeInformer[Site]":
    return FakeInformer(Site)


def recorder() -> kcr.EventRecorder:
    return kcr.EventRecorder(client(), "web", clock=SystemClock(), random=dice)


def children() -> kcr.Children:
    return kcr.Children(client(), recorder(), [FakeInformer(ConfigMap)], own_writes=kcr.OwnWrites())


def control() -> "kcr.DependentControl[Pod]":
    store = FakeInformer(Pod).store
    return kcr.DependentControl(client(), recorder(), Pod, store=store, own_writes=kcr.OwnWrites(), random=dice)


def file(text: str, name: str = "config") -> str:
    """Return the path of a file with a text, in the working directory."""
    Path(name).write_text(text)
    return name


KUBECONFIG: Mapping[str, Any] = {
    "apiVersion": "v1", "kind": "Config", "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "users": [{"name": "u", "user": {}}],
}  # fmt: skip


def kubeconfig(**changes: Any) -> str:
    """Return the path of a kubeconfig with some fields changed."""
    return file(msgspec.json.encode({**KUBECONFIG, **changes}).decode())


def definition(**spec: Any) -> str:
    """Return the path of a CustomResourceDefinition with some fields of its spec changed."""
    made = kcr.crd_manifest(Site)
    return file(msgspec.json.encode({**made, "spec": {**made["spec"], **spec}}).decode(), "crd.yaml")


async def logged(result: Any, **options: Any) -> str:
    """Return the lines of a controller whose reconciler returns, raises or calls something."""
    fakes = FakeManager(kinds=[Site])
    options.setdefault("watches", [kcr.watch(Site)])
    fakes.add_controller("web", Delegating(result), **options)
    with capture_logs() as logs:
        async with fakes.running():
            fakes.informer(Site).add(stored)
            await asyncio.sleep(0.001)
    return shown(logs)


async def transformed(transform: Any) -> str:
    """Return the lines of a manager that watches a Site through a transform."""
    program = kcr.Manager(Client(FakeSource(Site, stored)))
    program.select(kcr.Selection(Site, transform=transform))
    program.store(Site)
    with capture_logs() as logs:
        async with program.running():
            await asyncio.sleep(0.001)
    return shown(logs)


def handling(**methods: Any) -> Any:
    """Return a handler with these methods."""
    return type("Handling", (kcr.informer.Handler,), methods)()


def misread(values: Any) -> str:
    """Return the lines of a store with an index whose function returns something."""
    sites = informer()
    with capture_logs() as logs:
        sites.store.add_index("name", values)
        sites.add(stored)
    return shown(logs)


def shown(logs: Sequence[Any]) -> str:
    """Return the warnings and errors among lines of a log."""
    lines = [line for line in logs if line["log_level"] in ("error", "warning")]
    fields = ("error", "key", "expected")
    return " | ".join(
        f"{line['event']}: {', '.join(str(line[field]) for field in fields if field in line)}"
        + (" (traceback)" if line.get("exc_info") else "")
        for line in lines
    )


def printed(function: Any) -> str:
    """Return the exit code of a program, and what it prints."""
    lines, arguments = io.StringIO(), sys.argv
    sys.argv = ["mine.py"]
    try:
        with redirect_stderr(lines):
            code = function()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv = arguments
    return f"exit {code}: {lines.getvalue().strip()}"


def run(*arguments: Any, environ: Mapping[str, str] = {}, **options: Any) -> str:
    """Return how `kcr.run` ends: its exit code, and what it prints."""
    before = dict(os.environ)
    os.environ.update({"KUBECONFIG": kubeconfig(), **environ})
    try:
        return printed(lambda: kcr.run(*arguments, **{"args": [], **options}))
    finally:
        os.environ.clear()
        os.environ.update(before)


def attached(setup: Any, environ: Mapping[str, str] = {}) -> str:
    """Return how a program ends that calls a setup function once it is connected."""
    configure_logs(None, "info")
    command = click.Command("mine", callback=lambda: attach({"": setup}, manager(), environ))
    return printed(lambda: run_command(command, [], "mine.py", "mine.py"))


def declared(**fields: Any) -> Any:
    """Return a kind with fields of some types."""
    return kind(api_version="example.dev/v1", plural="declareds", fields=fields)


def defaulted(default: Any, of: Any) -> Any:
    """Return a kind whose spec has a field with a default."""
    make: Any = type(kcr.Object)
    spec = make("Spec", (kcr.Object,), {"__annotations__": {"a": of}, "a": default, "__module__": __name__})
    return declared(spec=spec)


def mixed() -> Any:
    """Return a kind with another base."""
    make: Any = type(kcr.Object)
    return make("Mixed", (kcr.Resource, Mixin), {}, api_version="example.dev/v1", plural="mixeds")


def kind(*, fields: Mapping[str, Any] = {}, **keywords: Any) -> Any:
    """Return a class of these keywords and fields."""
    make: Any = type(kcr.Object)
    return make("Declared", (kcr.Resource,), {"__annotations__": fields, "__module__": __name__}, **keywords)


async def inside(call: Any) -> Any:
    """Call a function where a loop runs."""
    return call()


def unfinished() -> "kcr.testing.FaultyTransport":
    """Return a transport with a rule that has no action."""
    faults = kcr.testing.FaultyTransport(FakeSource(Site))
    faults.on("list", Site)
    return faults
