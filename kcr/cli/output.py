"""Files that commands write: whole, and an error line that names the file and the remedy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from kcr.atomicfile import is_full, replace_files
from kcr.errors import ConfigError


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


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table as lines, its columns as wide as their longest cells.

    Args:
        header: The titles of the columns.
        rows: The cells, as many in each row as there are columns.
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
