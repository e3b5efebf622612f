"""The time zone this process is in, by which schedules go that name none."""

from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from kcr.api.crontab import UnknownZoneError, load_zone

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
