"""What is made of a field of a struct of options."""

from pathlib import Path
from typing import Annotated, Any, Literal

import click
import msgspec
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from msgspec import Meta

from kcr.app.fields import fields_of, given_as, options
from kcr.keywords import Flag


class Oven(msgspec.Struct, frozen=True, kw_only=True):
    heat: Annotated[int, Meta(ge=50, le=250), "Degrees.", Flag("N")] = 180
    program: Annotated[Literal["bake", "Grill"] | None, "What it does.", Flag(default="none")] = None
    is_fan: Annotated[bool, "Whether the fan runs.", Flag(negation=True)] = False
    recipe: Annotated[Path | None, Path, "File to read.", Flag("FILE", short="-r")] = None
    shelves: Annotated[Annotated[int, Meta(ge=1)] | None, "Shelves."] = None


@click.command()
@options(Oven, prefix="OVEN_", words={"recipe": "the last one"}, heat=200)
def command(**values: Any) -> None:
    click.echo(repr(Oven(**values)))
    click.echo(given_as(click.get_current_context(), "heat")("program"))


def run(*arguments: str, **environ: str) -> str:
    return CliRunner().invoke(command, arguments, env=environ).output


def test_option_comes_before_variable_before_default() -> None:
    assert run().splitlines() == [repr(Oven(heat=200)), "program"]
    assert run(OVEN_HEAT="90").splitlines() == [repr(Oven(heat=90)), "OVEN_PROGRAM"]
    assert run("--heat", "60", OVEN_HEAT="90").splitlines() == [repr(Oven(heat=60)), "--program"]


def test_each_type_is_read_from_text() -> None:
    found = run("--program", "GRILL", "-r", "cake.md", "--shelves", "2", OVEN_IS_FAN="yes")
    assert found.startswith(repr(Oven(heat=200, program="Grill", is_fan=True, recipe=Path("cake.md"), shelves=2)))
    assert "is_fan=False" in run("--no-is-fan", OVEN_IS_FAN="yes")


@pytest.mark.parametrize(
    ("name", "given", "fault"),
    [
        pytest.param("heat", "40", "'40' is not a whole number from 50 to 250", id="below"),
        pytest.param("heat", "hot", "'hot' is not a whole number from 50 to 250", id="no-number"),
        pytest.param("shelves", "0", "'0' is not a whole number of at least 1", id="optional"),
        pytest.param("program", "fry", "'fry' is not one of bake, Grill", id="no-choice"),
        pytest.param("is_fan", "often", "'often' is not true or false", id="no-truth"),
    ],
)
def test_wrong_value_is_named_with_what_is_expected(name: str, given: str, fault: str) -> None:
    (field,) = (one for one in fields_of(Oven) if one.name == name)
    with pytest.raises(ValueError, match=f"^{fault}$"):
        field.read(given, repr(given))


def test_help_shows_description_bounds_and_defaults() -> None:
    shown = " ".join(run("--help").split())
    assert "--heat N Degrees. [env var: OVEN_HEAT; default: 200; 50<=x<=250]" in shown
    assert "--program [bake|Grill] What it does. [env var: OVEN_PROGRAM; default: (none)]" in shown
    assert "-r, --recipe FILE File to read. [env var: OVEN_RECIPE; default: (the last one)]" in shown


def test_shell_completes_choices_and_files() -> None:
    complete = ShellComplete(command, {}, "oven", "_OVEN_COMPLETE").get_completions
    assert [item.value for item in complete(["--program"], "g")] == ["Grill"]
    assert [item.type for item in complete(["--recipe"], "c")] == ["file"]
