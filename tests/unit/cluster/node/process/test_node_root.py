import subprocess
import sys
from pathlib import Path

import pytest

from kcr_devcluster.cluster.node.process.node_root import MARK, PREFIX, node_root


def test_directory_lasts_as_long_as_its_node(tmp_path: Path) -> None:
    with node_root(tmp_path) as root:
        (root / "pod").mkdir()
        assert root.parent == tmp_path and root.name.startswith(PREFIX)
    assert list(tmp_path.iterdir()) == []


def test_directory_of_a_living_node_is_left_alone(tmp_path: Path) -> None:
    with node_root(tmp_path) as first, node_root(tmp_path) as second:
        assert first.exists() and second.exists()


def test_directory_of_a_killed_node_is_removed(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    (left / ".lock").touch()
    with node_root(tmp_path):
        assert not left.exists()


@pytest.mark.parametrize("name", [f"{PREFIX}begun", "other"], ids=["not-locked-yet", "not-a-node's"])
def test_directory_without_a_lock_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with node_root(tmp_path):
        assert (tmp_path / name).exists()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="environments are not shown here")
def test_processes_of_a_killed_node_are_killed(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    (left / ".lock").touch()
    program = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(program, env={MARK: f"{left}/uid/.main"}, start_new_session=True) as process:
        while not Path(f"/proc/{process.pid}/environ").read_bytes():
            pass  # the system shows the environment a moment after the program has begun
        with node_root(tmp_path):
            assert process.wait(5) == -9
