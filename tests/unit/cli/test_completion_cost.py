"""The modules that a completion imports: a shell waits for it, and modules are most of its time."""

import os
import subprocess
import sys

import pytest

# Each of these takes a tenth of a second, or has a part that does.
HEAVY = {"aiohttp", "asyncio", "cryptography", "kubernetes_asyncio", "prometheus_client", "rich", "structlog", "yaml"}
# Python's own and click's are 150 of them.
MOST_MODULES = 260
PROGRAM = """
import sys
from kcr.cli.main import main
sys.argv = ["kcr"]
try:
    main()
except SystemExit:
    pass
print(*sorted(sys.modules), file=sys.stderr)
"""


def completed(words: str) -> tuple[list[str], list[str]]:
    """Return what bash gets for the words, and the modules that were imported for it."""
    number = len(words.split(" ")) - 1
    environ = {**os.environ, "_KCR_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines()], done.stderr.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("kcr ", "explain", id="commands"),
        pytest.param("kcr ru", "run-now", id="begun"),
        pytest.param("kcr run --log-", "--log-level", id="options"),
        pytest.param("kcr run --log-level w", "warning", id="values"),
        pytest.param("kcr completion ", "fish", id="shells"),
        pytest.param("kcr jobs --all", "--all-namespaces", id="options-of-jobs"),
        pytest.param("kcr debug p", "profile", id="commands-of-a-group"),
        pytest.param("kcr crd generate --ch", "--check", id="options-in-a-group"),
        pytest.param("kcr dev --run", "--runtime", id="options-of-the-cluster"),
        pytest.param("kcr rerun --dry-run s", "server", id="choices"),
        pytest.param("kcr check --controllers job,c", "job,cronjob", id="controllers"),
    ],
)
def test_completion_imports_few_modules(words: str, expected: str) -> None:
    found, modules = completed(words)
    assert expected in found
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()
    assert len(modules) <= MOST_MODULES
