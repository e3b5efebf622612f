"""`kcr version`: the versions for a bug report."""

import platform
from importlib.metadata import PackageNotFoundError, version

import click
import msgspec

# The packages that behaviour depends on, besides Python.
_PACKAGES = ("aiohttp", "kubernetes-asyncio", "msgspec", "uvloop")


@click.command("version", epilog="Exit codes: 0, 2 on a wrong option.")
@click.option("-o", "--output", type=click.Choice(["json"]), help="Print one JSON object.")
def command(output: str | None) -> None:
    """Print the versions of kcr, Python and the packages that matter.

    That of a server is printed by `kcr check`.
    """
    found = versions()
    if output == "json":
        click.echo(msgspec.json.encode(found))
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
