"""docs/reference/ tells of every option, variable, metric and public name there is."""

import re
from collections.abc import Mapping, Sequence

import click
import msgspec
import pytest

from kcr.app.plugins import VARIABLES
from kcr.cli import check, run, version
from kcr.cli.debug.commands import command as debug
from kcr.cli.objects import explain, reconcile, shards
from kcr.controllers.cronjob.commands import cronjobs
from kcr.controllers.cronjob.controller import Options as CronJobOptions
from kcr.controllers.job.commands import creation, events, jobs, logs, wait
from kcr.controllers.job.controller import Options
from kcr_devcluster.dev import command as dev
from kcr_devcluster.dev import snapshot
from kcr_devcluster.generators import crd, kubeconfig, policy, rbac, types, webhooks
from kcr_devcluster.rehearsal import rehearse
from tests.kit.documents import ROOT
from tools.completions import TABLES, table, variables
from tools.reference import FOLDER, NAMES, PACKAGES, pages

COMMAND_LINE = (FOLDER / "command-line.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return COMMAND_LINE.partition(f"\n## `{title}`")[2].partition("\n## ")[0]


def options(command: click.Command) -> Sequence[click.Option]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Option) and not parameter.hidden]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        pytest.param("dev", dev.command, id="dev"),
        pytest.param("run", run.command, id="run"),
        pytest.param("check", check.command, id="check"),
        pytest.param("rbac generate", rbac.generate, id="rbac"),
        pytest.param("crd generate", crd.generate, id="crd"),
        pytest.param("webhooks generate", webhooks.generate, id="webhooks"),
        pytest.param("policy generate", policy.generate, id="policy"),
        pytest.param("types generate", types.generate, id="types"),
        pytest.param("kubeconfig create", kubeconfig.create, id="kubeconfig-create"),
        pytest.param("events", events.command, id="events"),
        pytest.param("explain", explain.command, id="explain"),
        *(pytest.param("debug", one, id=f"debug-{name}") for name, one in debug.commands.items()),
        pytest.param("reconcile", reconcile.command, id="reconcile"),
        pytest.param("rerun", creation.rerun, id="rerun"),
        pytest.param("run-now", creation.run_now, id="run-now"),
        pytest.param("shards", shards.command, id="shards"),
        pytest.param("jobs", jobs.command, id="jobs"),
        pytest.param("cronjobs", cronjobs.command, id="cronjobs"),
        pytest.param("wait", wait.command, id="wait"),
        pytest.param("logs", logs.command, id="logs"),
        pytest.param("version", version.command, id="version"),
        pytest.param("rehearse", rehearse.command, id="rehearse"),
        pytest.param("snapshot", snapshot.command, id="snapshot"),
        pytest.param("snapshot save", snapshot.save, id="snapshot-save"),
        pytest.param("snapshot restore", snapshot.restore, id="snapshot-restore"),
    ],
)
def test_every_option_is_explained(name: str, command: click.Command) -> None:
    told = section(f"kcr {name}")
    for option in options(command):
        assert any(re.search(rf"`{one}[ `|]", told) for one in option.opts), option.opts


@pytest.mark.parametrize("package", TABLES)
def test_table_of_completions_is_that_of_the_commands(package: str) -> None:
    assert TABLES[package].read_text(encoding="utf-8") == table(package), "run `python -m tools.reference`"


def test_table_of_variables_has_those_of_all_options() -> None:
    assert VARIABLES.read_text(encoding="utf-8") == variables(), "run `python -m tools.completions`"


def test_every_variable_of_run_is_named() -> None:
    told = section("kcr run")
    fields = [field.name for kind in (Options, CronJobOptions) for field in msgspec.structs.fields(kind)]
    for name in [*fields, *(option.name for option in options(run.command) if option.name)]:
        assert f"`KCR_{name.upper()}`" in told


@pytest.fixture(scope="module")
def written() -> Mapping[str, str]:
    """The pages as the code is: they take a second."""
    return pages()


@pytest.mark.parametrize(
    "name", [*(f"{package}.md" for package in (*PACKAGES, *NAMES)), "command-line.md", "kinds.md", "metrics.md"]
)
def test_page_is_what_the_code_says(written: Mapping[str, str], name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == written[name], "run python -m tools.reference"


def test_every_page_is_listed() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    for page in FOLDER.glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index
    assert "(docs/reference/README.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
