#!/usr/bin/env bash
# click: a misspelled command gets a suggestion, but not from a group that finds its commands lazily.
#
# Seen with click 8.5.1, CPython 3.11 (2026-11-30):
# Since 8.4.0 `prog buidl` is answered by "No such command 'buidl'. Did you mean 'build'?". The candidates are the keys of the attribute
# `commands` of the group, not what its `list_commands` returns. A group that overrides `list_commands` and `get_command`, as click's own
# documentation shows it for lazy loading, has nothing in `commands`: its help lists `build`, `prog build` runs, and the slip gets no
# suggestion. Overriding `resolve_command` mends it.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/groups.py" <<'PYTHON'
import click
from click.testing import CliRunner


class Lazy(click.Group):
    def list_commands(self, ctx):
        return ["build"]

    def get_command(self, ctx, name):
        return click.Command("build", callback=lambda: click.echo("built")) if name == "build" else None


eager = click.Group("prog", commands=[click.Command("build", callback=lambda: click.echo("built"))])
for kind, group in (("eager", eager), ("lazy", Lazy("prog"))):
    runs, slips = (CliRunner().invoke(group, [word]).output for word in ("build", "buidl"))
    lists = "build" in CliRunner().invoke(group, ["--help"]).output
    print(kind, f"lists={lists}", f"runs={runs.strip()}", f"suggests={'Did you mean' in slips}")
PYTHON
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "click==8.5.1"
seen=$("$folder/venv/bin/python" "$folder/groups.py")
echo "$seen"
[ "$seen" = "eager lists=True runs=built suggests=True
lazy lists=True runs=built suggests=False" ]
