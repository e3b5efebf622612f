"""Runs one version of an operator on a snapshot, in virtual time: a program for the interpreter of that version.

`versions` starts it as a file, so this source runs with the kcr and kcr-devcluster of another environment, whatever
their versions. It imports nothing of this package, and of theirs the few names in `_Names` alone. The request is a JSON
file, and so is the result, see `versions`.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import random
import re
import sys
import sysconfig
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

# The version of request and result.
PROTOCOL = 1
# The oldest kcr with all the names below.
OLDEST = "0.1.0"
# Simulated nodes start the containers of the snapshot before the operator begins.
_WARM_UP_SECONDS = 10.0
# How long a container of a Job runs.
_RUN_SECONDS = 60.0
# What an operator does in its first minute is counted apart.
_START_SECONDS = 60.0
_LOOK_SECONDS = 30.0
# An operator whose own code runs for so long without a request blocks its event loop.
_STUCK_SECONDS = 30
_MOST_FAILING = 100
_REFUSED, _NOT_FOUND = 400, 404
_AUDITED = {
    "socket.connect": "connects to another process",
    "socket.getaddrinfo": "resolves a name",
    "subprocess.Popen": "starts a process",
    "os.system": "starts a process",
    "os.posix_spawn": "starts a process",
    "os.fork": "starts a process",
}
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/[^/]+(?=/.))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<subresource>.+))?)?"
)
_WATCHING = ("list", "watch")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class UnusableError(Exception):
    """The version cannot be rehearsed; the text is a sentence for the user."""


class _Names:
    """What is used of kcr and kcr-devcluster, imported from the environment of the interpreter."""

    def __init__(self) -> None:
        try:
            importlib.import_module("kcr")
        except ImportError:
            raise UnusableError("there is no kcr in it: pip install 'kcr[test]'") from None
        try:
            importlib.import_module("kcr_devcluster")
        except ImportError:
            raise UnusableError("there is no kcr-devcluster in it: pip install 'kcr[test]'") from None
        self.kcr = _version("kcr")
        try:
            # In kcr itself until 0.2.
            loop = importlib.import_module(importlib.import_module("kcr.testing").VirtualClock.__module__)
            self.loop, self.clock = loop.VirtualLoop, loop.VirtualClock
            plugins = importlib.import_module("kcr.app.plugins")
            self.find_plugins, self.attach = plugins.find_plugins, plugins.attach
            self.manager = importlib.import_module("kcr.manager").Manager
            self.client = importlib.import_module("kcr.client").Client
            self.cluster = importlib.import_module("kcr_devcluster.cluster").EmbeddedCluster
            self.run_result = importlib.import_module("kcr_devcluster.cluster.node").RunResult
        except (ImportError, AttributeError) as error:
            raise UnusableError(
                f"kcr {self.kcr} is too old to be rehearsed ({error}): the oldest version is {OLDEST}"
            ) from None
        with suppress(Exception):
            importlib.import_module("kcr.app.logs").configure_logs("plain", "error")


def _version(name: str) -> str:
    return importlib.import_module("importlib.metadata").version(name)  # type: ignore[no-any-return]  # a text


class _Outside:
    """Refuses what leaves the process or passes real time, and remembers the first refusal."""

    def __init__(self, packages: list[str]) -> None:
        self._own = [f"{Path(folder)}{os.sep}" for folder in packages]
        paths = sysconfig.get_paths()
        self._sites = [paths["purelib"], paths["platlib"]]
        self._standard = [paths["stdlib"], paths["platstdlib"]]
        self.refusal = ""
        self.is_on = False

    def install(self) -> None:
        """Begin to watch; nothing is refused before `is_on` is set."""

        def audit(event: str, arguments: Any) -> None:
            if self.is_on and event in _AUDITED and not _is_local(event, arguments):
                self.refuse(_AUDITED[event])

        sys.addaudithook(audit)
        sleep = time.sleep

        def refused(seconds: Any) -> None:
            if self.is_on and threading.current_thread() is threading.main_thread():
                self.refuse("sleeps in real time, which asyncio.sleep does not")
            sleep(seconds)

        time.sleep = refused

    def guard(self, loop: Any) -> None:
        """Refuse threads of a loop; connections of asyncio and of aiohttp begin with one that resolves the name."""
        run = loop.run_in_executor

        def refused(*arguments: Any) -> Any:
            if self.is_on:
                self.refuse("hands work to a thread, which kcr.in_thread does not in virtual time")
            return run(*arguments)

        loop.run_in_executor = refused

    def refuse(self, what: str) -> None:
        """Raise an error if code of the operator is on the stack."""
        if line := self.line(sys._getframe(2)):
            self.refusal = self.refusal or f"{_whose()}{line} {what}"
            raise RuntimeError(f"rehearsal: {self.refusal}")

    def line(self, frame: Any) -> str:
        """Return the line of the operator in a stack; empty where it is not on it."""
        found = ""
        while frame is not None:
            file = frame.f_code.co_filename
            if any(file.startswith(folder) for folder in self._own):
                break
            is_library = any(file.startswith(folder) for folder in self._sites)
            if is_library or not (file == __file__ or file.startswith("<") or self._is_standard(file)):
                found = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
                if not is_library:
                    break
            frame = frame.f_back
        return found

    def _is_standard(self, file: str) -> bool:
        return any(file.startswith(folder) for folder in self._standard)


def _whose() -> str:
    """Return the controller and the key that are reconciled: a library may call out in a task of its own."""
    with suppress(Exception):
        bound = importlib.import_module("structlog.contextvars").get_contextvars()
        return f"{bound['controller']} {bound['namespace']}/{bound['name']}: "
    return ""


def _is_local(event: str, arguments: Any) -> bool:
    # The address of a socket of this machine is a path.
    return event == "socket.connect" and not isinstance(arguments[1], tuple)


class _Counting:
    """The operator's way to the server, which counts its requests.

    Attributes:
        inner: The way without it; kcr looks for this name.
    """

    def __init__(self, inner: Any, loop: Any) -> None:
        self.inner = inner
        self._loop, self._began = loop, loop.time()
        self.counts: Counter[tuple[str, str, str]] = Counter()
        # Verb, resource and code of answers that are refusals.
        self.refused: Counter[tuple[str, str, int]] = Counter()
        # The kinds of which a list or watch was answered.
        self.served: set[str] = set()
        # The collections that the operator has written to: group and version, plural.
        self.written: dict[tuple[str, str], None] = {}

    @asynccontextmanager
    async def send(self, request: Any) -> AsyncIterator[Any]:
        """Send one request."""
        phase = "start" if self._loop.time() - self._began < _START_SECONDS else "after"
        verb, resource = self._described(request.method, request.target)
        self.counts[phase, verb, resource] += 1
        async with self.inner.send(request) as response:
            if response.status >= _REFUSED:
                self.refused[verb, resource, response.status] += 1
            elif verb in _WATCHING:
                self.served.add(resource)
            yield response

    def _described(self, method: str, target: str) -> tuple[str, str]:
        path, _, query = target.partition("?")
        found = _PATH.fullmatch(path)
        if found is None:
            return method.lower(), path
        group, plural, subresource = found["group"], found["plural"], found["subresource"]
        verb = _VERBS.get(method) or ("get" if found["name"] else "watch" if "watch=" in query else "list")
        if method in _VERBS:
            self.written[f"{group}/{found['version']}" if group else found["version"], plural] = None
        display = f"{plural}.{group}" if group else plural
        return verb, f"{display}/{subresource}" if subresource else display


class Rehearsal:
    """One version on one snapshot."""

    def __init__(self, request: dict[str, Any], output: Path) -> None:
        self._request, self._output = request, output
        self._counting: _Counting | None = None
        self._loop: Any = None
        self.result: dict[str, Any] = {"protocol": PROTOCOL, "python": sys.version.split()[0]}

    def run(self) -> None:
        """Run it, and write the result."""
        try:
            names = _Names()
            self.result["kcr"] = names.kcr
            packages = [importlib.import_module(name).__path__[0] for name in ("kcr", "kcr_devcluster")]
            outside = _Outside(packages)
            outside.install()
            random.seed(self._request["seed"])
            gc.set_threshold(20_000)
            with asyncio.Runner(loop_factory=names.loop) as runner:
                self._loop = runner.get_loop()
                self._loop.set_exception_handler(lambda *_: None)
                threading.Thread(target=self._watch, args=[outside], daemon=True).start()
                runner.run(self._live(names, outside))
        except UnusableError as error:
            self.result["error"] = str(error)
        self.write()

    def write(self) -> None:
        """Write the result; the file is complete when it has its name."""
        partial = self._output.with_suffix(".partial")
        partial.write_text(json.dumps(self.result))
        partial.replace(self._output)

    async def _live(self, names: _Names, outside: _Outside) -> None:
        request, seed = self._request, self._request["seed"]
        clock = names.clock(datetime.fromisoformat(request["start"]) - timedelta(seconds=_WARM_UP_SECONDS))
        result = names.run_result(run_for=_RUN_SECONDS)
        async with names.cluster(
            clock=clock, random=random.Random(seed), data_dir=request["folder"], nodes=request["nodes"],
            kinds=request["kinds"], on_run=lambda pod, container, attempt: result if _is_of_job(pod) else None,
        ) as cluster:  # fmt: skip
            await asyncio.sleep(_WARM_UP_SECONDS)
            self._counting = _Counting(cluster.transport, asyncio.get_running_loop())
            client = names.client(cluster.transport, field_manager="kcr-controllers")
            beside = names.manager(client, clock=clock, random=random.Random(seed))
            names.attach(names.find_plugins(tuple(request["beside"])), beside, {}, take_over=True)
            operator = names.manager(
                names.client(self._counting), clock=clock, random=random.Random(seed), namespace=request["namespace"]
            )
            outside.guard(self._loop)
            outside.is_on = True
            try:
                names.attach(names.find_plugins(tuple(request["controllers"])), operator, os.environ, take_over=True)
            except Exception as error:
                raise UnusableError(f"the operator fails at start: {_said(error)}") from error
            await self._run([beside.run()] if request["beside"] else [], operator, outside)
            outside.is_on = False
            self.result["requests"] = [[*key, count] for key, count in sorted(self._counting.counts.items())]
            self.result["refused"] = [[*key, count] for key, count in sorted(self._counting.refused.items())]
            self.result["failing"] = _failing(operator)
            self.result["lists"] = await self._lists(cluster.client)

    async def _run(self, others: list[Any], operator: Any, outside: _Outside) -> None:
        """Run the operator for the wanted time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._request["seconds"]
        tasks = [loop.create_task(one) for one in (*others, operator.run())]
        try:
            while loop.time() < end and not outside.refusal:
                await asyncio.wait(
                    tasks, timeout=min(_LOOK_SECONDS, end - loop.time()), return_when=asyncio.FIRST_COMPLETED
                )
                if tasks[-1].done():
                    tasks[-1].result()
                    raise UnusableError("the operator ends by itself")
            self._check_served()
        except UnusableError:
            raise
        except BaseException as error:
            if outside.refusal:
                raise UnusableError(outside.refusal) from error
            raise UnusableError(f"the operator fails: {_said(error)}") from error
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if outside.refusal:
            raise UnusableError(outside.refusal)

    def _check_served(self) -> None:
        """Refuse an operator that watches kinds of which there is no definition."""
        assert self._counting is not None
        refused = self._counting.refused
        watched = {resource for verb, resource, code in refused if verb in _WATCHING and code == _NOT_FOUND}
        if missing := sorted(watched - self._counting.served):
            raise UnusableError(
                f"it watches {', '.join(missing)}, which is not served: give the definitions of its version with "
                "--new-crds, or take the snapshot with its controllers"
            )

    async def _lists(self, client: Any) -> list[dict[str, Any]]:
        """Return the objects of all kinds of the snapshot, and of those that the operator has written."""
        assert self._counting is not None
        wanted = {tuple(one): None for one in self._request["resources"]}
        known = {(version.rpartition("/")[0], plural) for version, plural in wanted}
        for version, plural in self._counting.written:
            if (version.rpartition("/")[0], plural) not in known:
                wanted[version, plural] = None
        found = []
        for version, plural in wanted:
            root = "/apis" if "/" in version else "/api"
            # A kind of the snapshot that this version does not serve has no objects.
            with suppress(Exception):
                items = json.loads(await client.request("GET", f"{root}/{version}/{plural}"))["items"]
                found.append({"apiVersion": version, "plural": plural, "items": items})
        return found

    def _watch(self, outside: _Outside) -> None:
        """End the process when the operator blocks the event loop, or takes too long."""
        main = threading.main_thread().ident or 0
        # In seconds, about.
        now, stuck = 0, 0
        seen: tuple[float, int] = (0.0, 0)
        pause = threading.Event()
        while not pause.wait(1.0):
            now += 1
            count = self._counting.counts.total() if self._counting is not None else 0
            before, seen = seen, (self._loop.time(), count)
            where = outside.line(sys._current_frames().get(main))
            stuck = stuck + 1 if where and seen == before else 0
            text = ""
            if stuck >= _STUCK_SECONDS:
                text = f"{where} has blocked the event loop for {_STUCK_SECONDS} s"
            elif now > self._request["limit"]:
                hours = f"{timedelta(seconds=int(max(0.0, seen[0] - _WARM_UP_SECONDS)))}"
                text = f"it has not ended after {self._request['limit']:.0f} s, and is at {hours}{self._busiest()}"
            if text:
                self.result["error"] = text
                self.write()
                os._exit(1)

    def _busiest(self) -> str:
        counts = Counter[str]()
        for (_, verb, resource), count in (self._counting.counts if self._counting is not None else {}).items():
            counts[f"{verb} {resource}"] += count
        return f"; its most frequent request is {counts.most_common(1)[0][0]}" if counts else ""


def _is_of_job(pod: Any) -> bool:
    return any(owner.kind == "Job" for owner in pod.metadata.owner_references) and not any(
        name.startswith("sim.kcr.dev/") for name in pod.metadata.annotations
    )


def _said(error: BaseException) -> str:
    """Return an error as its last line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    lines = str(error).strip().splitlines()
    kind = type(error).__name__
    text = lines[-1] if lines else ""
    return text if kind in ("ConfigError", "UsageError") and text else f"{kind}: {text}" if text else kind


def _failing(operator: Any) -> dict[str, dict[str, str]]:
    """Return the last error of each key that still fails, by controller."""
    found: dict[str, dict[str, str]] = {}
    for name, controller in operator.controllers.items():
        failing = getattr(getattr(controller, "journal", None), "failing", {})
        texts = {str(key): str(getattr(run, "text", run)) for key, run in list(failing.items())[:_MOST_FAILING]}
        if texts:
            found[name] = texts
    return found


def main(arguments: list[str]) -> None:
    """Read the request, and write the result."""
    request = json.loads(Path(arguments[0]).read_text())
    Rehearsal(request, Path(arguments[1])).run()


if __name__ == "__main__":
    main(sys.argv[1:])
