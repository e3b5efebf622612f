"""Which names are those of time zones. The data is the system's, or else that of the package tzdata.

Source: Go's time.LoadLocation.
"""

from functools import lru_cache
from zoneinfo import ZoneInfo

# The zone of the server itself, which Go calls so.
LOCAL = "Local"


@lru_cache(1024)
def is_zone(name: str) -> bool:
    """Return whether a zone of this name can be loaded; upper and lower case count."""
    if name == LOCAL:
        return True
    try:
        ZoneInfo(name)
    # A key that is unknown or no path within the data, a directory there, a file of another form.
    except (KeyError, ValueError, OSError):
        return False
    return True
