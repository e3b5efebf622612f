"""Classic faults of operators are found, and nothing is found in the same operators without them."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from kcr.testing import explore
from kcr_devcluster.testing.explore import FoundError
from tests.explore.api import Shop

# The faults, the oracle that names them, and at which fault. `make test` has some, `make soak` all.
FAULTS = {
    "call_before_finalizer": ("end-state", "deleted@1"),
    "conflict_swallowed": ("end-state", "changed@2"),
    "counter_in_memory": ("end-state", "crash-after@2"),
    "delete_before_create": ("end-state", "crash-after@2"),
    "external_call": ("end-state", "500@1"),
    "finalizer_needs_gone": ("finalizer", "crash-after@2"),
    "flapping_condition": ("status", ""),
    "generated_name": ("twice", "crash-after@1"),
    "list_index": ("end-state", "500@1"),
    "owner_reference": ("end-state", "crash-after@1"),
    "stale_cache": ("invariant", "event-late@3"),
    "status_loop": ("idle", ""),
    "webhook": ("end-state", "changed@1"),
}
_QUICK = ("flapping_condition", "generated_name")


def module_of(name: str) -> ModuleType:
    """Return the operator with a fault, and without."""
    return importlib.import_module(f"tests.explore.faults.{name}")


# Each takes one to five seconds of the processor.
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in _QUICK else pytest.mark.soak) for name in FAULTS]
)
def test_fault_is_found_and_told_in_twelve_lines(name: str) -> None:
    operator = module_of(name)
    options = getattr(operator, "OPTIONS", {})
    with pytest.raises(FoundError) as found:
        explore(operator.scenario, operator.faulty, kinds=[Shop], seconds=300, **options)
    assert (found.value.violation.oracle, found.value.only) == FAULTS[name]
    assert len(str(found.value).splitlines()) <= 12
    if found.value.only:  # the line that repeats it
        with pytest.raises(FoundError, match=found.value.violation.oracle):
            explore(operator.scenario, operator.faulty, kinds=[Shop], only=found.value.only, **options)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.soak) for name in FAULTS])
def test_correct_twin_survives_everything(name: str) -> None:
    operator = module_of(name)
    report = explore(operator.scenario, operator.correct, kinds=[Shop], seconds=900, **getattr(operator, "OPTIONS", {}))
    assert report.left_out == 0


@pytest.mark.parametrize("fault", ["crash-after@1", "reply-lost@1", "namespace@2"])
def test_correct_twin_survives_a_fault(fault: str) -> None:
    operator = module_of("generated_name")
    report = explore(operator.scenario, operator.correct, kinds=[Shop], only=fault)
    assert report.writes == ("create configmaps explore/shop-backup", "patch shops.example.dev explore/shop/status")
    # Two without a fault, which have to be alike.
    assert (report.runs, report.left_out) == (3, 0)


def test_every_fault_has_its_row() -> None:
    assert {path.stem for path in Path(__file__).with_name("faults").glob("*.py")} == set(FAULTS)
