"""Volumes in memory: an emptyDir with `medium: Memory` is a directory of a tmpfs that the machine has.

A kubelet mounts a tmpfs for each of them. That takes root, and a mount that a killed node would leave behind. In a
directory of the machine's own tmpfs all else is the same: the files that containers write are in memory, are shared by
the containers of the pod, and outlive their restarts. Its bound is that of the tmpfs, not `sizeLimit`.
"""

import shutil
from contextlib import ExitStack
from pathlib import Path

from kcr_devcluster.cluster.node.process.node_root import node_root

# Where Linux has a tmpfs that every user may write to. Source: shm_overview(7).
SHARED_MEMORY = Path("/dev/shm")  # a directory of our own is made in it
_MOUNTS = Path("/proc/self/mounts")


class MemoryVolumes:
    """The volumes in memory of a node's pods. Their root directory is made with the first one."""

    def __init__(self, tmpfs: Path = SHARED_MEMORY) -> None:
        """Make none yet.

        Args:
            tmpfs: Where a tmpfs is mounted, if the machine has one.
        """
        self._tmpfs = tmpfs
        self._files = ExitStack()
        self._root: Path | None = None

    def directory(self, uid: str, volume: str) -> Path | None:
        """Return where a volume of a pod is to be made; None where the machine has no tmpfs."""
        if self._root is None:
            if not is_tmpfs(self._tmpfs):
                return None
            self._root = self._files.enter_context(node_root(self._tmpfs))
        return self._root / uid / volume

    def release(self, uid: str) -> None:
        """Remove the volumes of a pod."""
        if self._root is not None:
            shutil.rmtree(self._root / uid, ignore_errors=True)

    def close(self) -> None:
        """Remove all volumes."""
        self._files.close()


def is_tmpfs(path: Path) -> bool:
    """Return whether a tmpfs is mounted at a path, which only Linux tells."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return False
    # The last one hides those before.
    kinds = [words[2] for words in mounts if words[1] == str(path)]
    return bool(kinds) and kinds[-1] == "tmpfs"
