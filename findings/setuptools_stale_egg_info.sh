#!/usr/bin/env bash
# setuptools: an editable install does not renew the .egg-info that an earlier build left in the project, and programs that run
# in the project's folder see the entry points of that one.
#
# Seen with setuptools 80.9.0, pip's `wheel` and `install --editable`, CPython 3.11 (2026-11-29):
# `pip wheel .` leaves NAME.egg-info beside pyproject.toml. When entry points change after that, `pip install --editable .` writes
# the new ones into the environment, and leaves the folder as it is. `importlib.metadata.entry_points` asks the folders of sys.path
# in their order, and one distribution counts once. So wherever the project's folder comes first (`python -m`, `python -c`, pytest
# with `pythonpath = .`), the old entry points are found and the new ones are not; elsewhere it is the other way round.
# Installing again does not help: the folder has to be deleted.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/pip" "$@" --quiet --disable-pip-version-check 2>/dev/null; }
pip install setuptools==80.9.0 wheel==0.45.1
mkdir -p "$folder/project/demo"
cd "$folder/project"
touch demo/__init__.py
cat >pyproject.toml <<'TOML'
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "demo"
version = "1"

[project.entry-points."demo.commands"]
before = "demo:command"

[tool.setuptools]
packages = ["demo"]
TOML
pip wheel --no-deps --no-build-isolation --wheel-dir "$folder/wheels" .
sed -i 's/^before = /after = /' pyproject.toml
pip install --no-deps --no-build-isolation --editable .
names='from importlib.metadata import entry_points; print(*(one.name for one in entry_points(group="demo.commands")))'
inside=$("$folder/venv/bin/python" -c "$names")
outside=$(cd / && "$folder/venv/bin/python" -c "$names")
pip install --no-deps --no-build-isolation --editable .
again=$("$folder/venv/bin/python" -c "$names")
rm -r demo.egg-info
deleted=$("$folder/venv/bin/python" -c "$names")
echo "in the project: $inside; elsewhere: $outside; installed again: $again; without the folder: $deleted"
test "$inside $outside $again $deleted" = "before after before after"
