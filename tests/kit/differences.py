"""The defects of kube-controller-manager that kcr does not have: the table of docs/reference/differences.md."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "differences.md"
_ROW = re.compile(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", re.MULTILINE)


def known_differences() -> dict[str, str]:
    """Return what kube-controller-manager does, by the names of the rows."""
    return {name: upstream for name, upstream, _ in _ROW.findall(PAGE.read_text(encoding="utf-8"))}
