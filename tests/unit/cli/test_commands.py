"""Commands of kcr itself, of kcr-devcluster, and of other installed packages."""

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import pytest

from kcr.cli.completers import outlines
from kcr.cli.main import COMMANDS, exit_code_of

Install = Callable[[str, str], None]

PLANTS = """
import click

@click.command()
@click.argument("name")
def command(name):
    \"\"\"Water a plant.\"\"\"
    click.echo(f"{name} is watered")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package with the module `plants` and one entry point."""

    def install(entry: str, code: str) -> None:
        about = tmp_path / "plants-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plants\nVersion: 1.0\n", encoding="utf-8")
        (about / "entry_points.txt").write_text(f"[kcr.commands]\n{entry}\n", encoding="utf-8")
        (tmp_path / "plants.py").write_text(code, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))

    return install


def test_installed_package_adds_a_command(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("water = plants:command", PLANTS)
    assert exit_code_of(["water", "ficus"]) == 0
    assert exit_code_of(["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("ficus is watered\n")
    assert "\nOthers:\n  water  Water a plant.\n" in shown


def test_command_of_a_package_never_replaces_kcrs_own(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("version = plants:command", PLANTS)
    assert exit_code_of(["version"]) == 0
    assert "watered" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "line"),
    [
        pytest.param("import soil", "command water: ModuleNotFoundError: No module named 'soil' at plants.py:1: ",
                     id="import-fails"),
        pytest.param("command = 1", "command water: plants:command is not a click.Command: correct the entry point\n",
                     id="no-command"),
    ],
)  # fmt: skip
def test_broken_command_is_one_line(code: str, line: str, install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("water = plants:command", code)
    assert exit_code_of(["water"]) == 1
    assert capsys.readouterr().err.startswith(f"kcr: {line}")
    assert exit_code_of(["--help"]) == 0
    assert "command water:" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "arguments",
    [["dev"], ["dev", "--wait", "-f", "x"], ["dev", "--help"], ["snapshot", "save"], ["init", "shop", "--kind", "Shop"],
     ["types", "generate", "v1/Pod"], ["crd", "generate", "shop", "-o", "crd"], ["crd", "migrate", "shops.example.dev"],
     ["kubeconfig", "create", "--user", "jane"], ["policy", "generate", "limits"], ["rbac", "generate", "--shards"],
     ["webhooks", "generate", "shop:setup"]],
)  # fmt: skip
def test_missing_development_cluster_is_named_with_its_extra(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "kcr_devcluster", None)
    assert exit_code_of(arguments) == 1
    line = f"kcr: kcr {arguments[0]} needs the extra 'embedded': pip install 'kcr[embedded]'\n"
    assert capsys.readouterr().err == line


def test_commands_of_packages_are_known_without_them() -> None:
    points = [point for name in ("kcr", "kcr-devcluster") for point in distribution(name).entry_points]
    added = {point.name for point in points if point.group == "kcr.commands"}
    assert outlines().keys() == COMMANDS.keys() | added
    assert all(outline["help"].endswith(".") for outline in outlines().values())


def loaded_by(*arguments: str) -> set[str]:
    code = f"import sys; from kcr.cli.main import exit_code_of; exit_code_of({list(arguments)!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split("\n")[-2].split())


@pytest.mark.parametrize("command", ["", "run"])
def test_help_imports_neither_client_nor_runtime(command: str) -> None:
    loaded = loaded_by(*filter(None, (command, "--help")))
    assert not {name for name in loaded if name.startswith(("kcr_devcluster", "kcr.client", "kcr.manager", "aiohttp"))}


def test_help_imports_no_command() -> None:
    assert not {"kcr.cli.run", "kcr_devcluster.generators"} & loaded_by("--help")
