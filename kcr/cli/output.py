"""Files that commands write: whole, and an error line that names the file and the remedy."""

from collections.abc import Iterator
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
