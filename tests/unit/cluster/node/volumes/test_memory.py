from pathlib import Path

import pytest

from kcr_devcluster.cluster.node.volumes.memory import SHARED_MEMORY, MemoryVolumes, is_tmpfs


def test_machine_without_a_tmpfs_has_no_memory_volumes(tmp_path: Path) -> None:
    volumes = MemoryVolumes(tmp_path)
    assert volumes.directory("uid", "v") is None
    volumes.release("uid")
    volumes.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not is_tmpfs(SHARED_MEMORY), reason="the machine has no tmpfs")
def test_memory_volumes_go_with_their_pod_and_their_node() -> None:
    volumes = MemoryVolumes()
    directories = [volumes.directory(uid, "v") for uid in ("a", "b")]
    for directory in directories:
        assert directory is not None
        directory.mkdir(parents=True)
    first, second = directories
    assert first is not None and second is not None
    volumes.release("a")
    assert not first.exists() and second.exists()
    volumes.close()
    assert not second.parent.parent.exists()
