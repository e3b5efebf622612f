"""What `kcr rbac generate` writes for controllers of one's own, and what it says of those that declare too little."""

from pathlib import Path

import pytest
import yaml

from kcr.cli.main import exit_code_of

PROGRAM = """
import kcr
from kcr.api.core import ConfigMap, Namespace

class Idle:
    async def reconcile(self, key):
        return kcr.Result()

def declares(manager):
    wanted = kcr.rights(ConfigMap, "create")
    manager.add_controller("declares", Idle(), watches=[kcr.watch(Namespace)], rights=wanted)

def reads(manager):
    manager.add_controller("reads", Idle(), watches=[kcr.watch(ConfigMap)])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "idle_controllers.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_role_grants_what_all_setups_declare(capsys: pytest.CaptureFixture[str]) -> None:
    named = "idle_controllers:declares,idle_controllers:reads"
    assert exit_code_of(["rbac", "generate", "--controllers", named]) == 0
    _, role, _ = yaml.safe_load_all(capsys.readouterr().out)
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch", "create"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]},
    ]


def test_setup_that_declares_no_requests_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    named = "idle_controllers:declares,idle_controllers:reads"
    assert exit_code_of(["rbac", "generate", "--controllers", named]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kcr: controller 'idle_controllers:reads': no requests are declared beside what is watched")
