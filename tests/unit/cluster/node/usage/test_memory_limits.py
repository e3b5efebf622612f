import os
import signal
import subprocess
import sys

import pytest

from kcr_devcluster.cluster.node.usage.memory_limits import MemoryUse, over_limit
from kcr_devcluster.cluster.node.usage.proc import (
    charged_bytes,
    has_process_table,
    resident_bytes,
    sample_processes,
    sample_sessions,
)


@pytest.mark.parametrize(
    ("uses", "killed"),
    [
        pytest.param({"a": MemoryUse("u", 10, 10, None)}, set(), id="at-the-limit"),
        pytest.param({"a": MemoryUse("u", 11, 10, None)}, {"a"}, id="over-the-limit"),
        pytest.param({"a": MemoryUse("u", 11, None, None)}, set(), id="no-limit"),
        pytest.param({"a": MemoryUse("u", 6, None, 10), "b": MemoryUse("u", 5, None, 10)}, {"a"}, id="pod"),
        pytest.param({"a": MemoryUse("u", 6, None, 10), "b": MemoryUse("v", 5, None, 10)}, set(), id="two-pods"),
        pytest.param({"a": MemoryUse("u", 9, None, 10), "b": MemoryUse("u", 5, 4, 10)}, {"b"}, id="own-limit-first"),
    ],
)
def test_limits_decide_who_is_killed(uses: dict[object, MemoryUse], killed: set[object]) -> None:
    assert over_limit(uses) == killed


@pytest.mark.skipif(not has_process_table(), reason="only Linux shows its processes")
def test_process_in_a_session_of_its_own_belongs_to_its_parents() -> None:
    script = "import subprocess; subprocess.run(['sleep', '60'], start_new_session=True)"
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as parent:
        try:
            deadline = 500
            while len(found := {sample.pid for _, sample in sample_sessions({parent.pid: "it"})}) < 2 and deadline:
                deadline -= 1
            assert parent.pid in found and len(found) == 2
        finally:
            for pid in found:
                os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not has_process_table(), reason="only Linux shows its processes")
def test_process_table_shows_this_process() -> None:
    pid = os.getpid()
    (own,) = (sample for sample in sample_processes() if sample.pid == pid)
    assert own.session == os.getsid(0)
    assert own.cpu_seconds > 0
    assert 0 < charged_bytes(pid) <= resident_bytes(pid)
    assert resident_bytes(pid) == pytest.approx(own.resident_bytes, rel=0.2)
