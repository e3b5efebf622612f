"""The environment of the suite: of the shell's `KCR_…` variables none reaches the tests, or a process that they start.

The shell of a user of kcr has some, and commands warn of those that they do not know. The suite's own settings, such as
`KCR_SEEDS`, are variables as well: they are kept under another name, which the workers of pytest-xdist inherit.
"""

import os
from collections.abc import MutableMapping

_PREFIX, _ASIDE = "KCR_", "SUITE_"
# Of the shell's terminal, which the tests do not write to.
_TERMINAL = ("TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")


def set_aside(environ: MutableMapping[str, str]) -> None:
    """Rename the `KCR_…` variables, so that `setting` alone finds them; remove those of the terminal."""
    for name in _TERMINAL:
        environ.pop(name, None)
    for name in [one for one in environ if one.startswith(_PREFIX)]:
        environ[_ASIDE + name] = environ.pop(name)


def setting(name: str, default: str = "") -> str:
    """Return a setting of the suite.

    Args:
        name: The variable of the shell, such as `KCR_SEEDS`.
        default: The value where it is not set, or empty.
    """
    return os.environ.get(_ASIDE + name) or default
