"""Asks all clients all things, on `kcr dev` and on the kube-apiserver of `KUBEBUILDER_ASSETS`, and writes the page."""

import argparse
import asyncio
import base64
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import yaml

from kcr.clock import SystemClock
from kcr_devcluster.testing.controlplane import control_plane, find_assets
from tests.clients.page import CLIENTS, write_page
from tests.clients.proxy import Proxy, proxied
from tests.clients.things import THINGS, WEB, Happened, Thing

FOLDER = Path(__file__).parent
# The environment of requirements-clients.lock, which `make clients` makes.
PYTHON = os.environ.get("KCR_CLIENTS_PYTHON", ".venv-clients/bin/python")
# How long a driver may take before it is killed, and how long after the first watch the last object is made.
SECONDS = 120.0
LATE_SECONDS = 1.5
# How many clients are asked at a time.
TOGETHER = 4
PLUGIN = """#!{python}
import datetime, json
open({runs!r}, "a").write("x")
end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=2)
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
    "status": {{"token": "one", "expirationTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ")}}}}))
"""


class Server(NamedTuple):
    """A server to ask.

    Attributes:
        name: As in the page.
        kubeconfig: For what goes past the proxy.
        has_nodes: Whether pods run.
        session: Speaks to it.
        url: Its URL.
        token: The administrator's.
    """

    name: str
    kubeconfig: Path
    has_nodes: bool
    session: aiohttp.ClientSession
    url: str
    token: str

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request past the proxy; return the answer."""
        async with self.session.request(method, f"{self.url}/{path}", json=body) as answer:
            read = await answer.json()
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: {read.get('message')}")
            return read


class Asked(NamedTuple):
    """A server behind a proxy of its own.

    Attributes:
        server: The server.
        proxy: The proxy before it.
        url: The URL of the proxy.
    """

    server: Server
    proxy: Proxy
    url: str


class Driven:
    """The process of a client's driver, started when it is needed."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process unless it runs, and wait until it has imported its client."""
        if self._process is None or self._process.returncode is not None:
            with self._log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
                )
            assert self._process.stdout is not None
            await self._process.stdout.readline()

    async def ask(self, told: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer of the driver; one that says nothing is killed."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(told).encode() + b"\n")
        try:
            async with asyncio.timeout(SECONDS):
                line = await process.stdout.readline()
        except TimeoutError:
            await self.end()
            return {"value": None, "raised": "nothing within two minutes"}
        if not line:
            raise RuntimeError(f"the driver ended: {self._log.read_text()[-2000:]}")
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    async def end(self) -> None:
        """Kill the process."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def served(name: str, kubeconfig: Path, text: str, *, has_nodes: bool) -> AsyncIterator[Server]:
    """Give a server."""
    config = yaml.safe_load(text)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority), limit=0)
    token = user["token"]
    async with aiohttp.ClientSession(connector=connector, read_bufsize=1 << 24) as session:
        session.headers["Authorization"] = f"Bearer {token}"
        yield Server(name, kubeconfig, has_nodes, session, cluster["server"], token)


@contextmanager
def kcr_dev(folder: Path) -> Iterator[Path]:
    """Run `kcr dev`, and give its kubeconfig once it answers."""
    kubeconfig = folder / "kcr-dev.kubeconfig"
    command = [str(Path(sys.executable).with_name("kcr")), "dev", "--kubeconfig", str(kubeconfig), "--no-debug-page"]
    with (folder / "kcr-dev.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        for _ in range(300):
            if kubeconfig.is_file() and kubeconfig.read_text():
                break
            time.sleep(0.1)
        else:
            raise RuntimeError((folder / "kcr-dev.log").read_text())
        yield kubeconfig
    finally:
        process.terminate()
        process.wait(20)


async def ask(server: Server, driven: Driven, client: str, name: str, folder: Path) -> str:
    """Let a client do a thing on a server, and return the words for what happened."""
    async with proxied(server.session, server.url, server.token) as (proxy, url):
        return await _ask(Asked(server, proxy, url), driven, client, name, folder)


async def _ask(asked: Asked, driven: Driven, client: str, name: str, folder: Path) -> str:
    server, thing = asked.server, THINGS[name]
    if thing.direct and not server.has_nodes:
        return ""
    namespace = f"{client.replace('.', '-').replace('_', '-')}-{name}-{secrets.token_hex(2)}"
    await server.send("POST", "api/v1/namespaces", {"metadata": {"name": namespace}})
    for manifest in thing.objects:
        await server.send("POST", _collection(manifest, namespace), manifest)
    if thing.direct:
        await _until(server, f"api/v1/namespaces/{namespace}/pods/runner", "phase", "Running")
    if server.has_nodes and WEB in thing.objects:
        await _until(server, f"apis/apps/v1/namespaces/{namespace}/deployments/web", "observedGeneration", 1)
    await driven.start()
    kubeconfig, rotation = _credentials(asked, thing, folder)
    asked.proxy.play(thing.fault())
    told = {"method": thing.method, "arguments": thing.arguments, "namespace": namespace,
            "kubeconfig": str(kubeconfig), "rotation": rotation}  # fmt: skip
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        if thing.late:
            group.create_task(_late(asked, namespace, thing))
        answer = await driven.ask(told)
    seconds = time.perf_counter() - start
    if answer.get("absent"):
        words = "not asked"
    else:
        runs = folder / "runs"
        wanted = thing.result and "raised" not in answer
        result = await server.send("GET", thing.result.format(f"namespaces/{namespace}")) if wanted else {}
        seen = list(asked.proxy.seen)
        happened = Happened(answer, seen, result, seconds, len(runs.read_text()) if runs.is_file() else 0)
        words = thing.words(happened)
        if os.environ.get("KCR_CLIENTS_VERBOSE"):
            print(client, name, answer, *seen, sep="\n    ", file=sys.stderr)
    await server.send("DELETE", f"api/v1/namespaces/{namespace}")
    return words


def _collection(manifest: Mapping[str, Any], namespace: str) -> str:
    version, kind = manifest["apiVersion"], manifest["kind"].lower()
    plural = kind[:-1] + "ies" if kind.endswith("cy") else kind + "s"
    return f"{'apis' if '/' in version else 'api'}/{version}/namespaces/{namespace}/{plural}"


async def _until(server: Server, path: str, field: str, value: Any) -> None:
    """Wait until a controller or node of `kcr dev` has written a field of the status."""
    for _ in range(200):
        if (await server.send("GET", path))["status"].get(field) == value:
            return
        await asyncio.sleep(0.1)
    raise RuntimeError(f"{path} has no {field} {value}")


async def _late(asked: Asked, namespace: str, thing: Thing) -> None:
    await (asked.proxy.ended if thing.ends_watch else asked.proxy.began).wait()
    await asyncio.sleep(LATE_SECONDS)
    await asked.server.send("POST", f"api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "late"}})


def _credentials(asked: Asked, thing: Thing, folder: Path) -> tuple[Path, list[str]]:
    """Write the kubeconfig of a thing; return it, and the file and token of a rotation."""
    if thing.direct:
        return asked.server.kubeconfig, []
    token, runs, plugin = folder / "token", folder / "runs", folder / "plugin"
    token.write_text("one")
    runs.write_text("")
    plugin.write_text(PLUGIN.format(python=sys.executable, runs=str(runs)))
    plugin.chmod(0o700)
    version = "client.authentication.k8s.io/v1"
    users: Mapping[str, Mapping[str, Any]] = {
        "token": {"token": "one"},
        "file": {"tokenFile": str(token)},
        "plugin": {"exec": {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}},
    }
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": asked.url}}],
        "users": [{"name": "a", "user": users[thing.credentials]}],
    }  # fmt: skip
    kubeconfig = folder / f"{secrets.token_hex(4)}.kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    return kubeconfig, [str(token), "two"] if thing.credentials == "file" else []


async def ask_all(
    servers: Sequence[Server], clients: Sequence[str], things: Sequence[str], folder: Path
) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Return the words by client, thing and server."""
    free = asyncio.Semaphore(TOGETHER)
    found: dict[str, dict[str, Mapping[str, str]]] = {client: {} for client in clients}

    async def one(client: str) -> None:
        command, _ = CLIENTS[client]
        own = folder / client
        own.mkdir()
        driven = Driven(_command(command), own / "log")
        async with free:
            try:
                for name in things:
                    words = {server.name: await ask(server, driven, client, name, own) for server in servers}
                    found[client][name] = words
                    told = " | ".join(dict.fromkeys(said for said in words.values() if said))
                    print(f"{client:20} {name:16} {told}", flush=True)
            finally:
                await driven.end()

    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(one(client))
    return found


def _command(command: Sequence[str]) -> list[str]:
    driver, *arguments = command
    # Where kcr is installed no other client needs to be.
    python = sys.executable if driver == "kcr_driver.py" else PYTHON
    return [python, str(FOLDER / "drivers" / driver), *arguments]


async def main(clients: Sequence[str], things: Sequence[str]) -> int:
    """Ask, write the page where everything was asked, and return the exit code: 1 where the servers differ."""
    assets = find_assets(os.environ)
    with tempfile.TemporaryDirectory(prefix="kcr-clients-") as name, kcr_dev(Path(name)) as kubeconfig:
        folder = Path(name)
        async with AsyncExitStack() as stack:
            servers = [
                await stack.enter_async_context(served("kcr dev", kubeconfig, kubeconfig.read_text(), has_nodes=True))
            ]
            if assets is not None:
                (folder / "real").mkdir()
                real = stack.enter_context(control_plane(assets, folder / "real"))
                servers.append(
                    await stack.enter_async_context(
                        served("kube-apiserver", real.kubeconfig, real.kubeconfig.read_text(), has_nodes=False)
                    )
                )
            found = await ask_all(servers, clients, things, folder)
    rows = [(client, thing, words) for client in found for thing, words in found[client].items()]
    differing = [row for row in rows if len({words for words in row[2].values() if words}) > 1]
    for client, thing, words in differing:
        print(f"DIFFERS: {client} {thing}: {words}")
    if set(clients) == set(CLIENTS) and set(things) == set(THINGS):
        said = {client: {thing: words["kcr dev"] for thing, words in found[client].items()} for client in found}
        write_page(said, versions(), SystemClock().now().date().isoformat())
    print(f"{len(rows) - len(differing)} passed, {len(differing)} failed")
    return 1 if differing else 0


def versions() -> Mapping[str, str]:
    """Return the versions of the packages of the clients."""
    show = "import importlib.metadata as m, json; print(json.dumps([(d.name, d.version) for d in m.distributions()]))"
    printed = subprocess.run([PYTHON, "-c", show], check=True, capture_output=True, text=True).stdout
    return {re.sub("[._]", "-", name): found for name, found in json.loads(printed)} | {"kcr": version("kcr")}


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", action="append", choices=list(CLIENTS))
    parser.add_argument("--thing", action="append", choices=list(THINGS))
    return parser.parse_args()


if __name__ == "__main__":
    chosen = arguments()
    sys.exit(asyncio.run(main(chosen.client or list(CLIENTS), chosen.thing or list(THINGS))))
