"""What commands write: files, whole, with an error line that names the file and the remedy; JSON, YAML and tables."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from kcr.api import codec
from kcr.atomicfile import is_full, replace_files
from kcr.errors import ConfigError

_PLAIN = re.compile("[A-Za-z][A-Za-z0-9_./-]{2,}")
F = TypeVar("F", bound=Callable[..., Any])


def write_output(output: str, content: bytes, *, mode: int | None = None) -> None:
    """Write a command's output to the file of its option `-o`; `-` is stdout.

    Args:
        output: The option's value.
        content: The output.
        mode: The file's permissions; None for those of the present file, or of any new one.

    Raises:
        ConfigError: It cannot be written.
    """
    if output == "-":
        click.echo(content, nl=False)
        return
    with unwritable("name a file that can be written"):
        replace_files({Path(output): content}, mode=mode)


@contextmanager
def unwritable(remedy: str) -> Iterator[None]:
    """Turn an `OSError` into the line that names its file.

    Args:
        remedy: The advice where the cause is not a full disk.

    Raises:
        ConfigError: For the `OSError`.
    """
    try:
        yield
    except OSError as error:
        remedy = "free some space" if is_full(error) else remedy
        raise ConfigError(f"cannot write {error.filename}: {error.strerror}: {remedy}") from error


def output_option(*more: str, words: str = "") -> Callable[[F], F]:
    """Return a decorator that adds `-o`, as of kubectl; see `show`.

    Args:
        more: Formats beside `json` and `yaml`.
        words: The text for the help, where it says more than the names of the formats.
    """
    return click.option(
        "-o", "--output", type=click.Choice(["json", "yaml", *more]),
        help=words or "Print one JSON object, or YAML.",
    )  # fmt: skip


def show(value: object, form: str) -> None:
    """Print a value as one JSON object, or as a YAML document.

    Args:
        value: The value: a struct, a mapping, or their list.
        form: The value of `output_option`, `json` or `yaml`.
    """
    content = codec.encode(value)
    click.echo(_yaml_of(msgspec.json.decode(content)) if form == "yaml" else content, nl=form != "yaml")


def _yaml_of(value: object) -> str:
    import yaml  # noqa: PLC0415  # slow to import

    class Dumper(yaml.SafeDumper):
        """Quotes what readers of another version of YAML take for a number: `12e3`, `0o7`."""

    def text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, None if _PLAIN.fullmatch(text) else '"')

    Dumper.add_representer(str, text)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True)


def show_each(values: Iterable[object], form: str) -> None:
    """Print values as lines of JSON, or as a stream of YAML documents."""
    for value in values:
        if form == "yaml":
            click.echo("---")
        show(value, form)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table as lines, its columns as wide as their longest cells.

    Args:
        header: The titles of the columns.
        rows: The cells, as many in each row as there are columns.
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
