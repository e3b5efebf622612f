import os
import pydoc
import re
import subprocess
import sys
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest

import kcr
from kcr import testing


def test_every_public_name_is_there() -> None:
    for name in dir(testing):
        assert getattr(testing, name).__name__.rpartition(".")[2] == name


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'kcr\.testing' has no attribute 'Mock'"):
        _ = testing.Mock  # type: ignore[attr-defined]  # what the test is about


def test_waiting_and_virtual_time_load_neither_client_nor_server() -> None:  # TK-1
    code = "import sys; from kcr.testing import VirtualClock, eventually; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"aiohttp", "msgspec", "kcr.client", "kcr_devcluster.apiserver", "cryptography"} & set(loaded)


PLUGIN = """
import sys, pytest, pytest_asyncio
before = set(sys.modules)
import kcr_devcluster.testing.plugin, kcr_devcluster.testing.fixtures
print(*set(sys.modules) - before)
"""


def test_plugin_loads_few_small_modules_beside_pytest() -> None:
    loaded = subprocess.run([sys.executable, "-c", PLUGIN], capture_output=True, text=True, check=True).stdout.split()
    others = {name.partition(".")[0].removeprefix("_") for name in loaded} - {"kcr", "kcr_devcluster"}
    assert not {name for name in others if not name.startswith("sysconfig")} - sys.stdlib_module_names
    assert len([name for name in loaded if name.startswith("kcr")]) <= 14


def test_public_names_are_found_in_an_archive(tmp_path: Path) -> None:
    root = Path(kcr.__file__).parent
    with zipfile.ZipFile(tmp_path / "kcr.zip", "w") as archive:
        for path in (*root.glob("*.py*"), *root.glob("testing/*.py")):
            archive.write(path, path.relative_to(root.parent))
    code = "import kcr, kcr.testing; print(kcr.__file__, len(dir(kcr)), len(dir(kcr.testing)))"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "kcr.zip")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [
        str(tmp_path / "kcr.zip" / "kcr" / "__init__.py"), str(len(dir(kcr))), str(len(dir(testing))),
    ]  # fmt: skip


def test_help_shows_what_users_import() -> None:
    shown = pydoc.plain(pydoc.render_doc(testing))
    for name in dir(testing):
        assert re.search(rf"^    (class |async |)?{name}\b", shown, re.MULTILINE), name
    assert "VirtualLoop" not in shown


def test_extra_brings_what_tests_of_users_need_and_no_more() -> None:
    needed = [line.partition(";") for line in requires("kcr") or ()]
    found = {re.split(r"[^\w-]", name)[0] for name, _, extra in needed if extra.strip() == 'extra == "test"'}
    assert found == {"kcr-devcluster", "pytest", "pytest-asyncio"}
