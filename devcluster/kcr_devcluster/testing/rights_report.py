"""The pytest option `--kcr-rights`: the rights that the managers of a session have used, and those they lack.

It prints the least roles, names the declared rights that were never used, and fails the session where a manager has
used a right that it does not declare. Workers of pytest-xdist hand in what they have seen.
"""

from collections.abc import Generator
from contextlib import ExitStack

import msgspec
import pytest

from kcr.client.context import writing
from kcr.controller import Right
from kcr_devcluster.testing.rights import LackingRight, RightsInUse, Scope, spoken
from kcr_devcluster.yaml_writer import yaml_documents

_KEY = "kcr_rights"
_IN_USE = pytest.StashKey[RightsInUse]()
_OBSERVING = pytest.StashKey[ExitStack]()
_REMEDY = "declare them with manager.add_controller(…, rights=kcr.rights(…)), or leave these requests out"


class _HandedIn(msgspec.Struct):
    """What a worker has seen."""

    declared: list[Right]
    used: list[tuple[Scope, Right]]
    lacking: list[LackingRight]


def pytest_configure(config: pytest.Config) -> None:
    """Observe the requests of each manager that is made."""
    in_use = config.stash[_IN_USE] = RightsInUse()
    # The loops of tests inherit this context.
    observing = config.stash[_OBSERVING] = ExitStack()
    observing.enter_context(writing(observers=(in_use,)))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Observe them no more."""
    config.stash[_OBSERVING].close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note which test runs."""
    item.config.stash[_IN_USE].test = item.nodeid
    return (yield)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Hand in what a worker has seen; else fail a session in which rights are lacking."""
    in_use = session.config.stash[_IN_USE]
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        seen = _HandedIn([*in_use.declared], [*in_use.used], [*in_use.lacking.values()])
        output[_KEY] = msgspec.json.encode(seen).decode()
    elif in_use.lacking and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: "object", error: "object") -> None:
    """Add what a worker of pytest-xdist has seen."""
    output = getattr(node, "workeroutput", {})
    if _KEY not in output:
        return
    seen = msgspec.json.decode(output[_KEY], type=_HandedIn)
    in_use: RightsInUse = node.config.stash[_IN_USE]  # type: ignore[attr-defined]  # no import of xdist
    in_use.declared.update(seen.declared)
    in_use.used.update(seen.used)
    for found in seen.lacking:
        in_use.lacking.setdefault((found.controller, found.right), found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the roles, the rights that were never used, and those that lack."""
    in_use = config.stash[_IN_USE]
    terminalreporter.section("kcr rights")
    if not in_use.used:
        terminalreporter.line("no manager has sent a request")
        return
    terminalreporter.line("the least roles of what the managers have used:")
    terminalreporter.write(yaml_documents(in_use.roles("kcr")))
    if never := in_use.never_used():
        terminalreporter.line("declared, and never used:")
        for right in never:
            terminalreporter.line(f"  {spoken(right)}")
    if in_use.lacking:
        terminalreporter.line("used, and not declared, which fails the session:", red=True)
        for found in sorted(in_use.lacking.values()):
            terminalreporter.line(f"  {found}", red=True)
        terminalreporter.line(_REMEDY)
