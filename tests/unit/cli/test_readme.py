"""The README tells of every option, variable and example there is."""

import re
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
import pytest

from kcr.cli import dev, run
from kcr.controllers.job.controller import Options

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return README.partition(f"### `{title}`")[2].partition("\n### ")[0]


def options(command: click.Command) -> Sequence[click.Option]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


@pytest.mark.parametrize("command", [dev.command, run.command], ids=["dev", "run"])
def test_every_option_is_explained(command: click.Command) -> None:
    told = section(f"kcr {command.name}")
    for option in options(command):
        assert any(re.search(rf"`{name}[ `|]", told) for name in option.opts), option.opts


def test_every_variable_of_run_is_named() -> None:
    told = section("kcr run")
    fields = [field.name for field in msgspec.structs.fields(Options)]
    for name in [*fields, *(option.name for option in options(run.command) if option.name)]:
        assert f"`KCR_{name.upper()}`" in told


def test_every_example_is_named_and_exists() -> None:
    found = re.findall(r"[\w/-]+\.yaml", README.partition("### Examples")[2])
    there = (ROOT / "examples").rglob("*.yaml")
    assert {name.removeprefix("examples/") for name in found} == {
        str(path.relative_to(ROOT / "examples")) for path in there
    }
