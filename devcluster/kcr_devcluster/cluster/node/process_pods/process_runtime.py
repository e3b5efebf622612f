"""The process runtime: runs containers as processes of this machine.

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
from kcr.errors import ApiError, TransportError
from kcr.log import get_logger
from kcr_devcluster.cluster.node.logs import Log, Logs
from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod
from kcr_devcluster.cluster.node.process.child_watcher import process_descriptors
from kcr_devcluster.cluster.node.process.command_process import TERM, ContainerScope
from kcr_devcluster.cluster.node.process.environment import (
    MissingConfigError,
    argv_of,
    expand,
    hostname_of,
    no_command,
    unstarted,
    variables_of,
)
from kcr_devcluster.cluster.node.process.node_root import MARK, marker, node_root
from kcr_devcluster.cluster.node.process.processes import (
    ProcessRun,
    kill_orphaned_processes,
    spawn,
)
from kcr_devcluster.cluster.node.process.programs import BusyError, StartError
from kcr_devcluster.cluster.node.process_pods.pod_volumes import (
    ADMIN_KUBECONFIG,
    ContainerStart,
    PodVolumes,
    termination_message_mount,
)
from kcr_devcluster.cluster.node.runtime import Exit, NodeInfo, OnExit, RecordWarning, RunningContainer, StartDeferred
from kcr_devcluster.cluster.node.usage.memory_limits import MemoryLimits
from kcr_devcluster.cluster.node.usage.sampler import ContainerName

_log = get_logger()

# The exit code of a process that SIGKILL ended.
KILLED = 137
MAX_MESSAGE_BYTES = 4096
LOG_MESSAGE_LINES = 80
LOG_MESSAGE_BYTES = 2048


def _log_warning(pod: KubeletPod, reason: str, message: str) -> None:
    _log.warning(message, pod=str(pod.key), reason=reason)


@asynccontextmanager
async def process_runtime(
    client: Client, logs: Logs, node: NodeInfo, record: RecordWarning = _log_warning
) -> AsyncIterator["ProcessRuntime"]:
    """Open a process runtime whose processes and files last no longer than the context.

    Args:
        client: Reads the ConfigMaps and Secrets that variables and volumes come from.
        logs: Receives the output.
        node: Name and addresses, for the environment of processes.
        record: Writes events about volumes; by default log lines.
    """
    with node_root() as root, process_descriptors():
        async with asyncio.TaskGroup() as group:
            volumes = PodVolumes(client, node, root, group, record)
            runtime = ProcessRuntime(client, logs, node, volumes, root=root, group=group)
            try:
                yield runtime
            finally:
                volumes.close()
                runtime.kill_all()


class ProcessRuntime:
    """Starts containers as processes; see `process_runtime`."""

    def __init__(
        self, client: Client, logs: Logs, node: NodeInfo, volumes: PodVolumes, *, root: Path, group: asyncio.TaskGroup
    ) -> None:
        self._client = client
        self._logs = logs
        self._node = node
        self._volumes = volumes
        self._root = root
        self._group = group
        self._runs: dict[ProcessRun, ContainerName] = {}
        self._memory_limits = MemoryLimits(group)

    async def start(
        self, pod: KubeletPod, container: KubeletContainer, attempt: int, on_exit: OnExit
    ) -> RunningContainer | StartDeferred | Exit:
        """Start a container; see `ContainerRuntime`."""
        home = self._root / pod.metadata.uid
        home.mkdir(mode=0o700, exist_ok=True)
        if pod.spec.volumes and (seconds := await self._volumes.mount(pod)) is not None:
            return StartDeferred(retry_seconds=seconds)
        message_file = home / f".{container.name}.termination"
        message_file.unlink(missing_ok=True)
        message_file.touch()
        message_file.chmod(0o666)
        base = self._base(pod, home)
        try:
            start = await self._container_start(pod, container, home, message_file)
        except MissingConfigError as error:
            return StartDeferred("CreateContainerConfigError", str(error))
        except (ApiError, TransportError) as error:
            return StartDeferred("CreateContainerConfigError", str(error), 1.0)
        if not start.argv:
            return Exit(128, "StartError", no_command(container))
        terminal = {"TERM": TERM} if container.tty else {}
        environment = base | {MARK: str(message_file), **terminal, **start.variables}
        scope = ContainerScope(environment, start.directory, replaced=start.replaced)
        log = self._logs.begin(pod.metadata.uid, container.name)
        try:
            run = await spawn(start.argv, scope, container, log, start.namespace)
        except BusyError as error:
            log.close()
            return StartDeferred("CreateContainerError", str(error), 1.0)
        except StartError as error:
            log.close()
            return Exit(128, "StartError", unstarted(container, str(error)))
        self._runs[run] = ContainerName(pod.metadata.uid, container.name)
        self._memory_limits.watch(run, pod, container)
        fall_back = container.termination_message_policy == "FallbackToLogsOnError"
        self._group.create_task(self._watch(run, log, message_file, on_exit, fall_back=fall_back))
        return run

    async def _container_start(
        self, pod: KubeletPod, container: KubeletContainer, home: Path, message_file: Path
    ) -> ContainerStart:
        variables = await variables_of(self._client, pod, container, self._node.name, self._node.ip)
        directory = home / expand(container.working_dir, variables)
        start = ContainerStart(argv_of(container, variables), variables, directory)
        message = termination_message_mount(container, start, message_file)
        others = (*(() if message is None else (message,)), *await self._volumes.name_mounts(pod))
        if not container.volume_mounts and not others:
            return start
        return await self._volumes.apply(pod, container, start, others)

    def _base(self, pod: KubeletPod, home: Path) -> dict[str, str]:
        """Return the variables that every container has."""
        base = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home), "TMPDIR": str(home), "HOSTNAME": hostname_of(pod),
        }  # fmt: skip
        if self._node.api_url:
            server = urlsplit(self._node.api_url)
            base |= {
                "KUBERNETES_SERVICE_HOST": server.hostname or "",
                "KUBERNETES_SERVICE_PORT": str(server.port or 443),
            }
        if self._node.kubeconfig and not self._node.accounts_only:
            base["KUBECONFIG"] = str(self._kubeconfig())
        return base

    def _kubeconfig(self) -> Path:
        file = self._root / ADMIN_KUBECONFIG
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(self._node.kubeconfig)
        return file

    async def _watch(self, run: ProcessRun, log: Log, message_file: Path, on_exit: OnExit, *, fall_back: bool) -> None:
        try:
            code = await run.wait()
            if run.left_behind:
                kill_orphaned_processes(marker(message_file))
        finally:
            self._runs.pop(run, None)
            self._memory_limits.forget(run)
            log.close()
        message = _termination_message(message_file)
        if not message and code != 0 and fall_back:
            lines = log.read()[-LOG_MESSAGE_BYTES:].splitlines(keepends=True)[-LOG_MESSAGE_LINES:]
            message = b"".join(lines).decode(errors="replace")
        is_killed = run.is_out_of_memory and code == KILLED
        on_exit(Exit(code, "OOMKilled" if is_killed else "", message))

    def running(self) -> Mapping[ProcessRun, ContainerName]:
        """Return the containers that run."""
        return self._runs

    def kill_all(self) -> None:
        """End every process of every pod."""
        self._memory_limits.close()
        for run in self._runs:
            run.kill()

    def update(self, pod: KubeletPod) -> None:
        """Take over a pod that has changed."""
        self._volumes.update(pod)

    def release(self, uid: str) -> None:
        """Remove the files of a pod none of whose containers will run again."""
        self._volumes.release(uid)
        shutil.rmtree(self._root / uid, ignore_errors=True)


def _termination_message(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_MESSAGE_BYTES).decode(errors="replace")
    except OSError:
        return ""
