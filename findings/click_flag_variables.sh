#!/usr/bin/env bash
# click: in one release, `false` in the environment variable of a flag means true.
#
# Seen with click 8.2.1, beside 8.1.8 and 8.3.0, CPython 3.11 (2026-11-30):
# A flag with a variable, `@click.option("--force", is_flag=True, envvar="FORCE")`, is on with FORCE=false, FORCE=0, FORCE=no and
# FORCE=off, and with any other text; only an empty variable leaves it off. The same holds for `--force/--no-force`. In 8.1.8 and from
# 8.3.0 on these four are off, and a text that is no truth is an error. So a range such as `click>=8.2` takes a release in which what
# a deployment switches off is on.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/flags.py" <<'PYTHON'
from importlib.metadata import version

import click
from click.testing import CliRunner


@click.command()
@click.option("--force", is_flag=True, envvar="FORCE")
def command(force):
    click.echo(force)


def outcome(text):
    result = CliRunner().invoke(command, [], env={"FORCE": text})
    return result.output.strip() if result.exit_code == 0 else "error"


print(version("click"), *(f"{text}={outcome(text)}" for text in ("true", "false", "0", "no", "off", "perhaps")))
PYTHON
"${PYTHON:-python3}" -m venv "$folder/venv"
seen=""
for release in 8.1.8 8.2.1 8.3.0; do
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "click==$release"
    line=$("$folder/venv/bin/python" "$folder/flags.py")
    echo "$line"
    seen+="$line;"
done
off="true=True false=False 0=False no=False off=False perhaps=error"
on="true=True false=True 0=True no=True off=True perhaps=True"
[ "$seen" = "8.1.8 $off;8.2.1 $on;8.3.0 $off;" ]
