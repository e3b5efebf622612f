#!/usr/bin/env bash
# pytest: `monkeypatch.delitem(sys.modules, name, raising=False)` of a module that is absent restores nothing.
#
# Seen with pytest 9.2.0, CPython 3.11 (2026-11-30):
# A fixture that takes a module away so that a test imports its own file of that name undoes this only where the module was
# there. Where it was absent, which is the case of the first such test of a process, nothing is recorded: what the test then
# imports stays in sys.modules after it, although monkeypatch.syspath_prepend takes the folder off sys.path again. The next test
# with a module of that name gets the file of the first one. Whether it does depends on which tests pytest-xdist has given to the
# process before. Where the module was there, it is put back.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pytest==9.2.0 2>/dev/null
cat >"$folder/test_modules.py" <<'PYTHON'
import sys
from importlib import import_module

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch, request):
    (tmp_path / "limits.py").write_text(f"OF = {request.node.name!r}\n")
    monkeypatch.delitem(sys.modules, "limits", raising=False)
    monkeypatch.syspath_prepend(tmp_path)


def test_first(folder):
    assert import_module("limits").OF == "test_first"


def test_between():
    print("after a test that deleted an absent module and imported one: it is in sys.modules:", "limits" in sys.modules)
    assert "limits" in sys.modules


def test_another_with_a_module_of_that_name(tmp_path, monkeypatch):
    (tmp_path / "limits.py").write_text("OF = 'another test'\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = import_module("limits").OF
    print("the next test, with a limits.py of its own, imports that of:", found)
    assert found == "test_first"


def test_third(folder):
    assert import_module("limits").OF == "test_third"


def test_end():
    print("after a test that deleted a module that was there: sys.modules has that of:", sys.modules["limits"].OF)
    assert sys.modules["limits"].OF == "test_first"
PYTHON
cd "$folder"
"$folder/venv/bin/pytest" -q -s -p no:cacheprovider test_modules.py
