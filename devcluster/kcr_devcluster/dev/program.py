"""The program of `kcr dev`: applies the files, shows the progress, waits for the Jobs."""

import asyncio
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import tzinfo
from functools import partial
from pathlib import Path

import click

from kcr.api.batch import Job
from kcr.api.crontab import UnknownZoneError, load_zone
from kcr.api.explanation import Explanation
from kcr.api.meta import Key, Resource
from kcr.app.options import PluginOptions, shown
from kcr.app.plugins import Setup, choose_plugins, find_explainers, find_plugins, warn_of_unknown_variables
from kcr.app.process import run_to_end
from kcr.cli.display import Display, open_display
from kcr.cli.objects.look import look
from kcr.cli.target import ObjectName
from kcr.client.explainers import Explainer
from kcr.log import get_logger
from kcr.manager import Manager
from kcr_devcluster.dev.apply import Applied, apply
from kcr_devcluster.dev.cluster import dev_cluster
from kcr_devcluster.dev.cluster_pages import ClusterPages
from kcr_devcluster.dev.display.explanations import Explanations
from kcr_devcluster.dev.display.progress import Progress
from kcr_devcluster.dev.options import COMMAND_LINE, CONTROLLERS, DevOptions
from kcr_devcluster.dev.page import DevPage, check_port
from kcr_devcluster.dev.private_file import candidates, default_path, private_file
from kcr_devcluster.manifests import Document, read_documents

_DEFINITION = "CustomResourceDefinition"
# A cluster that ends with its Jobs prints how to inspect it only once they have taken so long.
_LATE_SECONDS = 10.0
_ZONE = "KCR_CRONJOB_TIME_ZONE"


def start(title: str, options: DevOptions, plugins: PluginOptions, files: Sequence[str]) -> int:
    """Run the cluster until its Jobs have ended or a signal ends it, and return the exit code.

    Args:
        title: The first line to print; empty when it is printed already.
        options: How the cluster is made and shown.
        plugins: The controllers, and the options of all of them.
        files: Manifests to apply: files, folders and URLs.

    Raises:
        click.UsageError: An option cannot be used.
        ConfigError: A port cannot be used, or a file cannot be read or written, or an object of it is refused.
    """
    setups = find_plugins(choose_plugins(plugins.controllers, CONTROLLERS, none_of_kcr=options.no_controllers))
    warn_of_unknown_variables(setups, get_logger().warning)
    documents = [document for file in files for document in read_documents(file)]
    kinds = {document.kind for document in documents}
    if options.wait and "Job" not in kinds:
        never = "a CronJob never ends, and " if "CronJob" in kinds else ""
        raise click.UsageError(f"{never}--wait needs a Job to wait for: name its file with -f")
    if options.debug_port:
        check_port(options.debug_port)
    code = run_to_end(lambda: _dev(title, options, plugins, setups, files, documents), force_on_second_signal=False)
    if code is not None:
        return code
    # The last line must not be the one that names the kubeconfig: it is removed, or leads nowhere for now.
    data = options.data_dir
    rest = f"kcr dev --data-dir {shlex.quote(str(data))} continues it" if data else "its kubeconfig is removed"
    with suppress(OSError):
        click.echo(f"kcr dev: the cluster has ended, and {rest}", err=True)
    return 130 if options.wait else 0


async def _dev(
    title: str, options: DevOptions, plugins: PluginOptions, setups: Mapping[str, Setup], files: Sequence[str],
    documents: Sequence[Document],
) -> int:  # fmt: skip
    default = Path(options.data_dir) / "kubeconfig" if options.data_dir else default_path(os.environ)
    paths = iter([options.kubeconfig]) if options.kubeconfig else candidates(default)
    zone = _zone()
    async with AsyncExitStack() as stack:
        dev = await stack.enter_async_context(dev_cluster(options, plugins, setups, zone))
        manager, client = dev.manager, dev.client
        file = stack.enter_context(private_file(paths, dev.kubeconfig, keep=options.data_dir is not None))
        path = file.path
        display = open_display(stack, manager)
        explainers = find_explainers(tuple(setups), get_logger().warning)
        explanations = Explanations(client, partial(_explain, manager, explainers))
        progress = Progress(manager, display, zone, explanations, names_pods=_may_mix(documents))
        is_brief, late = options.wait and not options.no_controllers, list[str]()
        announce = late.append if is_brief else display.announce
        if options.no_debug_page:
            # The event loop is monitored all the same.
            manager.expose(metrics=options.metrics_bind_address)
        else:
            pages = ClusterPages(manager, zone, dev.read_log, explanations, dev.metrics)
            given = shown(plugins) | {name: value for name, value in shown(options).items() if name in COMMAND_LINE}
            given["controllers"] = ",".join(setups)
            DevPage(dev, file, announce, pages).expose(options.debug_port, options.metrics_bind_address, given, files)
        if path not in (options.kubeconfig, default) and not is_brief:
            display.say(f"{default} belongs to another kcr dev; this one writes {path}")
        for line in filter(None, (title, *_notes(options))):
            display.say(line)
        announce(_kubectl(path, f"get {_kinds(documents)}"))
        for line in _commands(path, options, documents):
            display.say(f"  {line}")
        # First of all: a controller waits until the kinds that it watches are served.
        defined = await apply(client, [one for one in documents if one.kind == _DEFINITION])
        async with asyncio.TaskGroup() as group:
            running = group.create_task(manager.run())
            announcing = group.create_task(_announce_late(late, display))
            await manager.wait_ready()
            others = await apply(client, [one for one in documents if one.kind != _DEFINITION])
            applied = (*defined, *others)
            for one in applied:
                display.say(str(one))
            if options.wait:
                code = await _verdict(progress, applied, display)
                running.cancel()
                announcing.cancel()
                return code
    return 0


def _zone() -> tzinfo:
    # UTC, because a manifest means the same on every machine.
    try:
        return load_zone(os.environ.get(_ZONE) or "UTC")
    except UnknownZoneError as error:
        raise click.UsageError(f"{_ZONE}: {error}; write a name such as Europe/Berlin") from error


async def _explain(manager: Manager, explainers: Sequence[Explainer], kind: type[Resource], key: Key) -> Explanation:
    """Return the explanation of an object without its controller."""
    return (await look(manager.client, ObjectName(kind, key.name), key, manager.clock.now(), explainers)).explanation


async def _announce_late(lines: Sequence[str], display: Display) -> None:
    await asyncio.sleep(_LATE_SECONDS)
    for line in lines:
        display.announce(line)


def _notes(options: DevOptions) -> Iterator[str]:
    if options.runtime == "process":
        yield "commands of pods run on this machine, as you, without isolation"
    else:
        yield "commands of pods are not run, only simulated"
    if options.no_controllers:
        yield (
            "none of kcr's controllers run here: Jobs and CronJobs wait for kcr run, Deployments and the status of "
            "quotas and PodDisruptionBudgets for controllers of your own"
        )


def _commands(path: Path, options: DevOptions, documents: Sequence[Document]) -> Iterator[str]:
    if not documents:
        yield _kubectl(path, "apply -f FILE")
    if options.no_controllers:
        # No other controllers of Jobs run here; without the option kcr run does as in production.
        yield f"kcr run --take-over --kubeconfig {shlex.quote(str(path))}"


def _kubectl(path: Path, words: str) -> str:
    return f"kubectl --kubeconfig {shlex.quote(str(path))} {words}"


def _kinds(documents: Sequence[Document]) -> str:
    """Return the kinds to list, as kubectl takes them."""
    kinds = {document.kind for document in documents}
    if kinds and not kinds & {"CronJob", "Job"}:
        return "all"
    return "cronjobs,jobs,pods" if "CronJob" in kinds else "jobs,pods"


def _may_mix(documents: Sequence[Document]) -> bool:
    """Return whether several pods may print at once, so that log lines need the pod's name."""
    jobs = [document.manifest for document in documents if document.kind == "Job"]
    spec = jobs[0].get("spec") if len(jobs) == 1 else None
    return not isinstance(spec, dict) or spec.get("parallelism", 1) != 1


async def _verdict(progress: Progress, applied: Sequence[Applied], display: Display) -> int:
    # Of any version: an old one serves the same Jobs.
    keys = [one.key for one in applied if one.resource.kind == Job.resource.kind]
    views = await progress.ended(keys)
    for view in views:
        if not view.has_ended:
            display.say(f"job {view.key} was deleted before it ended")
    return 0 if all(view.state == "Complete" for view in views) else 1
