"""The wall clock of this process: the time zone it is in, and the moments at which its clock jumps."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, tzinfo
from importlib import metadata
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo

from kcr.api.crontab import UnknownZoneError, load_zone
from kcr.clock import Clock

LOCALTIME = Path("/etc/localtime")


def local_zone(environ: Mapping[str, str], localtime: Path = LOCALTIME) -> tzinfo:
    """Return the zone that `TZ` names, else the machine's, else UTC.

    Args:
        environ: The environment. `TZ` may begin with a colon; a zone that is unknown is UTC.
        localtime: The file with the machine's zone.

    Source: go/src/time/zoneinfo_unix.go, initLocal.
    """
    name = environ.get("TZ")
    if name is None:
        return _zone_in(localtime)
    name = name.removeprefix(":")
    if name.startswith("/"):
        return _zone_in(Path(name))
    try:
        return load_zone(name)
    except UnknownZoneError:
        return UTC


def _zone_in(file: Path) -> tzinfo:
    try:
        with file.open("rb") as content:
            return ZoneInfo.from_file(content)
    except (OSError, ValueError):
        return UTC


def zone_sources(folders: Sequence[str] = TZPATH) -> str:
    """Return where this machine's time zones come from, in the order in which they are looked up, with versions.

    Args:
        folders: Where the system may have them.
    """
    found = [_in_folder(folder) for folder in map(Path, folders) if folder.is_dir()]
    with suppress(metadata.PackageNotFoundError):
        found.append(f"the Python package tzdata {metadata.version('tzdata')}")
    return " and ".join(found) or "nowhere"


def _in_folder(folder: Path) -> str:
    """Name a folder, with the version in the file that the IANA database has there."""
    with suppress(OSError, UnicodeDecodeError), (folder / "tzdata.zi").open(encoding="ascii") as text:
        words = text.readline(64).split()
        if words[:2] == ["#", "version"]:
            return f"{folder} ({words[2]})"
    return str(folder)


CHECK_SECONDS = 60.0
# Clocks are corrected by less than this all the time.
JUMP_SECONDS = 1.0


class ClockWatch:
    """Calls back after each jump, within a minute, and when small steps have come to as much."""

    name = "cronjob clock watch"

    def __init__(self, clock: Clock, jumped: Callable[[], object]) -> None:
        """Make one; it does nothing before it runs.

        Args:
            clock: Wall time.
            jumped: Resets all timers that follow the calendar.
        """
        self._clock = clock
        self._jumped = jumped

    async def run(self) -> None:
        """Watch until cancelled."""
        before = self._ahead()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            ahead = self._ahead()
            if abs(ahead - before) > JUMP_SECONDS:
                before = ahead
                self._jumped()

    def _ahead(self) -> float:
        """Return by how many seconds the calendar is ahead of the loop."""
        return self._clock.now().timestamp() - asyncio.get_running_loop().time()
