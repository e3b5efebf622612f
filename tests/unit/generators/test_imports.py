"""The order of imports follows the name of the project."""

import subprocess
import sys
from pathlib import Path

import pytest

from kcr.cli.main import exit_code_of
from kcr_devcluster.generators.imports import with_sorted_imports

MODULE = '''"""A module."""

from datetime import datetime
import hashlib

from shop.api import Shop
import kcr
from kcr.api.core import ConfigMap

# A comment stays where it is.
X = 1
'''


def test_own_imports_follow_those_of_other_packages() -> None:
    assert (
        with_sorted_imports(MODULE, "shop")
        == '''"""A module."""

import hashlib
from datetime import datetime

import kcr
from kcr.api.core import ConfigMap

from shop.api import Shop

# A comment stays where it is.
X = 1
'''
    )


def test_module_without_imports_stays_as_it_is() -> None:
    assert with_sorted_imports("X = 1\n", "shop") == "X = 1\n"


@pytest.mark.parametrize("name", ["alpha", "shop-of-the-old-town-with-a-long-name-of-fifty-letters", "zebra"])
def test_imports_of_a_project_are_sorted_under_each_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code_of(["init", name]) == 0
    command = [sys.executable, "-m", "ruff", "check", "--select", "I", "--no-cache", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
