#!/usr/bin/env bash
# pytest-asyncio: one function declared as two fixtures has the loop scope of the last declaration in both.
#
# Seen with pytest-asyncio 1.5.0, pytest 9.2.0, CPython 3.11 (2026-11-29):
# `pytest_asyncio.fixture(function, name=..., loop_scope=...)` stores the loop scope on the function itself. Two fixtures made of
# one function, the first with loop_scope="session" and the second with loop_scope="function", both run on the loop of the
# function: the second declaration changes the first, without a warning, and a connection that the first fixture opens is on
# another loop than the test that uses it. Each fixture needs a function of its own.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pytest==9.2.0 pytest-asyncio==1.5.0 2>/dev/null
cat >"$folder/pytest.ini" <<'INI'
[pytest]
asyncio_mode = strict
asyncio_default_fixture_loop_scope = function
INI
cat >"$folder/test_scopes.py" <<'PYTHON'
import asyncio

import pytest
import pytest_asyncio


async def running_loop():
    return asyncio.get_running_loop()


async def another():
    return asyncio.get_running_loop()


first = pytest_asyncio.fixture(running_loop, name="of_session", loop_scope="session")
second = pytest_asyncio.fixture(running_loop, name="of_function", loop_scope="function")
alone = pytest_asyncio.fixture(another, name="of_session_alone", loop_scope="session")


@pytest.mark.asyncio(loop_scope="session")
async def test_loops(of_session_alone):
    loop = asyncio.get_running_loop()
    print("loop_scope=session, function declared once: it is on the loop of the session:", of_session_alone is loop)
    print("loop scopes kept on the function that was declared twice:",
          [value for name, value in vars(running_loop).items() if "loop_scope" in name])
    assert of_session_alone is loop


@pytest.mark.asyncio(loop_scope="session")
async def test_declared_twice(of_session):
    is_same = of_session is asyncio.get_running_loop()
    print("loop_scope=session, function declared again with loop_scope=function: it is on the loop of the session:", is_same)
    assert not is_same
PYTHON
cd "$folder"
"$folder/venv/bin/pytest" -q -s -p no:cacheprovider test_scopes.py
