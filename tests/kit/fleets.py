"""Fleets: a home cluster and member clusters in one virtual time, and lines between them that can be cut."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import yaml

import kcr
from kcr.api.core import ConfigMap, Event, Secret
from kcr.client import ClusterConfig, Request, Response, Transport
from kcr.clusters.secrets import FIELD, LABEL
from kcr.errors import TransportError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.crash import CrashingTransport
from tests.kit.transports import ChangedResponse, Lines

NAMESPACE = "fleet"
COLORS = kcr.Key("default", "colors")


class CutLine:
    """A transport whose line can be cut: open watches break, and requests fail.

    Attributes:
        requests: How many requests were sent.
    """

    def __init__(self, inner: Transport) -> None:
        self.requests = 0
        self.inner = inner
        self._cut = asyncio.Event()
        self._flows = asyncio.Event()
        self._flows.set()

    def freeze(self) -> None:
        """Let requests and watches wait, as those of a silent server; requests fail after their timeout."""
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    def cut(self) -> None:
        self._cut.set()

    def mend(self) -> None:
        self._cut = asyncio.Event()

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        self.requests += 1
        cut = self._cut
        if cut.is_set():
            raise TransportError("the line is cut")
        if not self._flows.is_set():
            await asyncio.sleep(request.timeout_seconds or 90)
            raise TransportError("nothing came")
        async with self.inner.send(request) as response:
            yield ChangedResponse(response, lambda lines: self._until_cut(lines, cut))

    async def _until_cut(self, lines: Lines, cut: asyncio.Event) -> Lines:
        while True:
            async with asyncio.TaskGroup() as group:
                line = group.create_task(anext(lines, None))
                end = group.create_task(cut.wait())
                await asyncio.wait((line, end), return_when=asyncio.FIRST_COMPLETED)
                end.cancel()
                if not line.done():
                    line.cancel()
            if line.cancelled():
                raise TransportError("the line is cut")
            await self._flows.wait()
            if (found := line.result()) is None:
                return
            yield found


class Fleet:
    """A home cluster, members by name, and the lines of one program to all of them.

    Attributes:
        home: The home cluster.
        members: The member clusters.
        lines: The lines to the members.
        crash: The line to the member `east`, which can crash.
    """

    def __init__(self, clock: VirtualClock, home: EmbeddedCluster, members: Mapping[str, EmbeddedCluster]) -> None:
        self.home, self.members, self._clock = home, members, clock
        self.crash = CrashingTransport(members["east"].transport)
        self.lines = {name: CutLine(self.crash if name == "east" else one.transport) for name, one in members.items()}

    def restart(self) -> None:
        """Replace the line to `east` that has crashed, as a new process does."""
        self.crash = CrashingTransport(self.members["east"].transport)
        self.lines["east"] = CutLine(self.crash)

    @asynccontextmanager
    async def connect(self, config: ClusterConfig) -> AsyncIterator[Transport]:
        """Connect to the member that the URL names."""
        yield self.lines[config.server.removeprefix("https://")]

    def manager(self) -> kcr.Manager:
        return kcr.Manager(self.home.client, clock=self._clock, random=random.Random(0))

    def clusters(self, manager: kcr.Manager, *names: str) -> kcr.Clusters:
        """Return the clusters of a manager; the members with these names are listed."""
        return kcr.Clusters(manager, {name: config_of(name) for name in names}, connect=self.connect)

    async def copies(self, key: kcr.Key = COLORS) -> dict[str, str]:
        """Return the color of the sky in each member that has a ConfigMap."""
        found: dict[str, str] = {}
        for name, member in self.members.items():
            for one in await member.client.list(ConfigMap, key.namespace):
                if one.key == key:
                    found[name] = one.data["sky"]
        return found

    async def warnings(self) -> list[str]:
        """Return the messages of the warnings in the namespace of the Secrets."""
        return [one.message for one in await self.home.client.list(Event, NAMESPACE) if one.type == "Warning"]


@asynccontextmanager
async def fleet_of(clock: VirtualClock, *names: str, **home_options: Any) -> AsyncIterator[Fleet]:
    """Run a home cluster, with these options, and members, each with storage and uids of its own."""
    async with AsyncExitStack() as stack:
        home, *members = [
            await stack.enter_async_context(
                EmbeddedCluster(runtime=None, clock=clock, random=random.Random(seed), **options)
            )
            for seed, options in enumerate((home_options, *({} for _ in names)))
        ]
        yield Fleet(clock, home, dict(zip(names, members, strict=True)))


def config_of(name: str) -> ClusterConfig:
    return ClusterConfig(server=f"https://{name}")


def colors(sky: str, **labels: str) -> ConfigMap:
    metadata = kcr.ObjectMeta(name=COLORS.name, namespace=COLORS.namespace, labels=labels)
    return ConfigMap(metadata=metadata, data={"sky": sky})


def kubeconfig(member: str, **user: str) -> bytes:
    """Return the text of a kubeconfig whose server is a member."""
    return yaml.safe_dump({
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": f"https://{member}"}}],
        "users": [{"name": "it", "user": {"token": "t", **user}}],
    }).encode()  # fmt: skip


def secret(name: str, text: bytes) -> Secret:
    """Return a Secret that makes a kubeconfig a member."""
    metadata = kcr.ObjectMeta(name=name, namespace=NAMESPACE, labels={LABEL: "true"})
    return Secret(metadata=metadata, data={FIELD: text})
