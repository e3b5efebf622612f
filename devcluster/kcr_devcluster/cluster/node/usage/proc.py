"""The process table of Linux: CPU time and memory by session. Other systems have none, and give no samples."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

PROCESSES = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
# In the fields of /proc/PID/stat behind the name.
_PARENT, _SESSION, _TIMES, _RESIDENT = 1, 3, slice(11, 15), 21
_CHARGED = (b"Pss_Anon:", b"Pss_Shmem:")

R = TypeVar("R")


class ProcessSample(NamedTuple):
    """A process at one moment.

    Attributes:
        pid: The process.
        parent: The process that started it, or took it over.
        session: Its session.
        cpu_seconds: Time on the CPU since its start, with that of its children that have ended.
        resident_bytes: Memory that is present, including memory that it shares with others.
    """

    pid: int
    parent: int
    session: int
    cpu_seconds: float
    resident_bytes: int


def has_process_table() -> bool:
    """Return whether this system shows its processes."""
    return (PROCESSES / "self" / "stat").exists()


def sample_processes() -> Iterator[ProcessSample]:
    """Yield all processes of the machine that this user may see."""
    try:
        names = os.listdir(PROCESSES)
    except OSError:
        return
    for name in names:
        if name.isdigit() and (sample := _sample(name)) is not None:
            yield sample


def _sample(pid: str) -> ProcessSample | None:
    try:
        with open(f"{PROCESSES}/{pid}/stat", "rb", buffering=0) as file:
            text = file.read()
    except OSError:  # it has ended
        return None
    # The name is in parentheses, and may contain some.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) <= _RESIDENT:
        return None
    cpu_seconds = sum(map(int, fields[_TIMES])) * _TICK_SECONDS
    resident = int(fields[_RESIDENT]) * _PAGE_BYTES
    return ProcessSample(int(pid), int(fields[_PARENT]), int(fields[_SESSION]), cpu_seconds, resident)


def sample_sessions(owners: Mapping[int, R]) -> Iterator[tuple[R, ProcessSample]]:
    """Yield the processes of sessions, and those that they have started in others.

    Args:
        owners: The sessions, each with the value that is yielded with its processes.
    """
    samples = {sample.pid: sample for sample in sample_processes()}
    for sample in samples.values():
        ancestor: ProcessSample | None = sample
        while ancestor is not None and ancestor.session not in owners:
            ancestor = samples.get(ancestor.parent)
        if ancestor is not None:
            yield owners[ancestor.session], sample


def resident_bytes(pid: int) -> int:
    """Return how much memory of a process is present, including shared memory; 0 when it has ended."""
    try:
        with open(f"{PROCESSES}/{pid}/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def charged_bytes(pid: int) -> int:
    """Return the memory that counts against a limit: no pages of files, and the process's share of shared memory.

    To read it takes milliseconds where a process is large. Some kernels have no such figure: there the resident memory
    is returned.
    """
    try:
        with open(f"{PROCESSES}/{pid}/smaps_rollup", "rb", buffering=0) as file:
            lines = file.read().splitlines()
    except OSError:  # it has ended, or changed its user
        return resident_bytes(pid)
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith(_CHARGED)]
    return sum(found) if found else resident_bytes(pid)
