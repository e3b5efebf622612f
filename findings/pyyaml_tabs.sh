#!/usr/bin/env bash
# PyYAML: its two loaders do not read the same documents. A tab behind a value is an error for one and nothing for the other.
#
# Seen with PyYAML 6.0.4, CPython 3.11 (2026-11-29):
# `SafeLoader` refuses a tab between tokens and at the end of a line ("found character '\t' that cannot start any token"): behind a
# plain or quoted scalar, behind a colon, before a comment, inside a flow list. `CSafeLoader`, which programs take for speed where
# libyaml was built in, reads all of them, as YAML 1.2 and go-yaml do. So a program that falls back on the Python loader, as many
# do with `try: from yaml import CSafeLoader`, refuses on one machine the file that it takes on another. Tabs in indentation are
# refused by both.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check PyYAML==6.0.4
exec "$folder/venv/bin/python" - <<'PYTHON'
import sys

import yaml

TEXTS = {
    "behind a plain scalar": "kind: Job\t\n",
    "behind a quoted scalar": 'kind: "Job"\t\n',
    "behind a colon": "kind:\tJob\n",
    "before a comment": "- Job\t# one\n",
    "inside a flow list": "kinds: [Job,\tPod]\n",
    "in indentation": "spec:\n\tkind: Job\n",
}


def read(text, loader):
    try:
        return str(yaml.load(text, Loader=loader))
    except yaml.YAMLError as error:
        return "refused: " + str(error.problem)


print(f"PyYAML {yaml.__version__}, Python {sys.version.split()[0]}")
seen = {}
for where, text in TEXTS.items():
    pure, native = read(text, yaml.SafeLoader), read(text, yaml.CSafeLoader)
    seen[where] = pure.startswith("refused"), native.startswith("refused")
    print(f"A tab {where}\n  SafeLoader:  {pure}\n  CSafeLoader: {native}")
expected = dict.fromkeys(TEXTS, (True, False)) | {"in indentation": (True, True)}
sys.exit(seen != expected)
PYTHON
