"""`kcr version`: the versions for a bug report."""

import platform
from importlib.metadata import PackageNotFoundError, version

import click

from kcr.cli.output import output_option, show

# The packages that behaviour depends on, besides Python.
_PACKAGES = ("aiohttp", "kubernetes-asyncio", "msgspec", "uvloop")


@click.command("version", epilog="Exit codes: 0, 2 on a wrong option.")
@output_option()
def command(output: str | None) -> None:
    """Print the versions of kcr, Python and important packages.

    That of a server is printed by `kcr check`.
    """
    found = versions()
    if output:
        show(found, output)
        return
    for name, number in found.items():
        click.echo(f"{name} {number}")


def versions() -> dict[str, str]:
    """Return the versions by package; packages that are not installed are omitted."""
    found = {"kcr": version("kcr"), "Python": platform.python_version(), "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
