"""The versions of a site, each in a folder of its own: `0.2.0/`, `latest/`, and what leads from one to another.

`versions.js` has the names of all versions and of their pages, and the menu. Each page of each version loads it from
the folder above its version, so the pages of an old version know the newer ones. It is a script because a page that is
opened from its file may not read other files.
"""

import json
from pathlib import Path

from packaging.version import InvalidVersion, Version

LATEST = "latest"
_MENU = Path(__file__).with_name("menu.js")
# Each version has this file.
_SIGN = "llms.txt"
_FIRST_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=latest/index.html">
<title>kcr</title>
<a href="latest/index.html">The documentation of the latest version</a>
</html>
"""


def versions_in(site: Path) -> list[str]:
    """Return the versions of a site: first those that are no numbers, such as `dev`, then the newest."""
    found = [path.parent.name for path in site.glob(f"*/{_SIGN}") if path.parent.name != LATEST]
    numbers = {name: number for name in found if (number := _number(name)) is not None}
    return [*sorted(set(found) - set(numbers)), *sorted(numbers, key=numbers.__getitem__, reverse=True)]


def latest_of(versions: list[str]) -> str:
    """Return the newest version that is a release; without any, the first of all."""
    return next((name for name in versions if (number := _number(name)) and not number.is_prerelease), versions[0])


def connect(site: Path) -> None:
    """Write the menu of all versions of a site, its first page, and the link `latest`."""
    versions = versions_in(site)
    latest = latest_of(versions)
    pages = [(name, sorted(str(path.relative_to(site / name)) for path in (site / name).rglob("*.html")))
             for name in versions]  # fmt: skip
    lines = (f"const VERSIONS = {json.dumps(pages)};", f"const LATEST = {json.dumps(latest)};", _MENU.read_text())
    (site / "versions.js").write_text("\n".join(lines), encoding="utf-8")
    (site / "index.html").write_text(_FIRST_PAGE, encoding="utf-8")
    link = site / LATEST
    link.unlink(missing_ok=True)
    link.symlink_to(latest, target_is_directory=True)


def _number(name: str) -> Version | None:
    try:
        return Version(name)
    except InvalidVersion:
        return None
