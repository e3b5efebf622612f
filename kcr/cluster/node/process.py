"""The runtime that really runs commands, as processes of this machine.

There is no isolation: they run as the current user and see the machine's files and network.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from kcr.client import Client
from kcr.cluster.node.environment import MissingConfigError, hostname_of, variables_of
from kcr.cluster.node.images import ImageCommand, argv_of, expand, no_command
from kcr.cluster.node.logs import Log, Logs
from kcr.cluster.node.place import Place
from kcr.cluster.node.pods import Container, RunnablePod
from kcr.cluster.node.processes import BusyError, ProcessRun, StartError, process_descriptors, spawn
from kcr.cluster.node.root import MARK, marker, node_root
from kcr.cluster.node.runtime import Exit, Exited, Held, Run
from kcr.cluster.node.strays import kill_strays
from kcr.errors import ApiError, TransportError

MAX_MESSAGE_BYTES = 4096
LOG_MESSAGE_LINES = 80
LOG_MESSAGE_BYTES = 2048


@asynccontextmanager
async def process_runtime(
    client: Client, logs: Logs, place: Place, images: Mapping[str, ImageCommand]
) -> AsyncIterator["ProcessRuntime"]:
    """Give a runtime whose processes and files last no longer than the context.

    Args:
        client: Reads the ConfigMaps and Secrets that variables come from.
        logs: Where output goes.
        place: What processes are told of node and server.
        images: What images run.
    """
    with node_root() as root, process_descriptors():
        async with asyncio.TaskGroup() as group:
            runtime = ProcessRuntime(client, logs, place, images, root=root, group=group)
            try:
                yield runtime
            finally:
                runtime.kill_all()


class ProcessRuntime:
    """Starts containers as processes; see `process_runtime`."""

    def __init__(  # made in one place, all by name but the four everybody has
        self,
        client: Client,
        logs: Logs,
        place: Place,
        images: Mapping[str, ImageCommand],
        *,
        root: Path,
        group: asyncio.TaskGroup,
    ) -> None:
        self._client = client
        self._logs = logs
        self._place = place
        self._images = images
        self._root = root
        self._group = group
        self._runs: set[ProcessRun] = set()

    async def start(self, pod: RunnablePod, container: Container, attempt: int, exited: Exited) -> Run | Held | Exit:
        """Start a container; see `Runtime`."""
        home = self._root / pod.metadata.uid
        home.mkdir(mode=0o700, exist_ok=True)
        message_file = home / f".{container.name}.termination"
        message_file.unlink(missing_ok=True)
        try:
            variables = await variables_of(self._client, pod, container, self._place.name, self._place.ip)
        except MissingConfigError as error:
            return Held("CreateContainerConfigError", str(error))
        except (ApiError, TransportError) as error:
            return Held("CreateContainerConfigError", str(error), 1.0)
        environment = self._base(pod, home) | {MARK: str(message_file)} | variables
        argv = argv_of(container, variables, self._images)
        if not argv:
            return Exit(128, "StartError", no_command(container))
        directory = home / expand(container.working_dir or "", variables)
        log = self._logs.begin(pod.metadata.uid, container.name)
        try:
            run = await spawn(argv, environment, directory, log)
        except BusyError as error:
            log.close()
            return Held("CreateContainerError", str(error), 1.0)
        except StartError as error:
            log.close()
            return Exit(128, "StartError", str(error))
        self._runs.add(run)
        fall_back = container.termination_message_policy == "FallbackToLogsOnError"
        self._group.create_task(self._watch(run, log, message_file, exited, fall_back=fall_back))
        return run

    def _base(self, pod: RunnablePod, home: Path) -> dict[str, str]:
        """Return the variables that every container has."""
        base = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home), "TMPDIR": str(home), "HOSTNAME": hostname_of(pod),
        }  # fmt: skip
        if self._place.api_url:
            server = urlsplit(self._place.api_url)
            base |= {
                "KUBERNETES_SERVICE_HOST": server.hostname or "",
                "KUBERNETES_SERVICE_PORT": str(server.port or 443),
            }
        if self._place.kubeconfig:
            base["KUBECONFIG"] = str(self._kubeconfig())
        return base

    def _kubeconfig(self) -> Path:
        file = self._root / "kubeconfig"
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(self._place.kubeconfig)
        return file

    async def _watch(self, run: ProcessRun, log: Log, message_file: Path, exited: Exited, *, fall_back: bool) -> None:
        try:
            code = await run.wait()
            if run.left_behind:
                kill_strays(marker(message_file))
        finally:
            self._runs.discard(run)
            log.close()
        message = _last_words(message_file)
        if not message and code != 0 and fall_back:
            lines = log.read()[-LOG_MESSAGE_BYTES:].splitlines(keepends=True)[-LOG_MESSAGE_LINES:]
            message = b"".join(lines).decode(errors="replace")
        exited(Exit(code, message=message))

    def kill_all(self) -> None:
        """End every process of every pod."""
        for run in self._runs:
            run.kill()

    def release(self, uid: str) -> None:
        """Remove the files of a pod none of whose containers will run again."""
        shutil.rmtree(self._root / uid, ignore_errors=True)


def _last_words(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_MESSAGE_BYTES).decode(errors="replace")
    except OSError:
        return ""
