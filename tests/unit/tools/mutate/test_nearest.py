"""Which tests are run for a change, and in which order."""

from tools.mutate.coverage import Recorded
from tools.mutate.mutations import Mutant
from tools.mutate.nearest import NearestTests

QUEUE = "kcr/workqueue/queue.py"
MIRROR = "tests/unit/workqueue/test_queue.py"


def mutant(path: str = QUEUE, entry: str = "Queue.done") -> Mutant:
    return Mutant(path, entry, entry, 0, 1, "comparison", "<", "<=")


def recorded(test: str, seconds: float = 1.0, *functions: str) -> Recorded:
    return Recorded(test, "", seconds, frozenset(functions or (f"{QUEUE}:Queue.done",)))


def test_tests_that_call_the_function_run_the_nearest_first() -> None:
    tests = [
        recorded("tests/runtime/test_x.py::test_far", 0.1),
        recorded("tests/unit/controller/test_worker.py::test_other", 0.2),
        recorded("tests/unit/workqueue/test_delaying.py::test_beside", 0.3),
        recorded(f"{MIRROR}::test_slow", 2.0),
        recorded(f"{MIRROR}::test_quick", 1.0),
        recorded(f"{MIRROR}::test_of_another_function", 0.1, f"{QUEUE}:Queue.add"),
    ]
    assert NearestTests(tests, {}, 60).of(mutant()) == [
        f"{MIRROR}::test_quick",
        f"{MIRROR}::test_slow",
        "tests/unit/workqueue/test_delaying.py::test_beside",
        "tests/unit/controller/test_worker.py::test_other",
        "tests/runtime/test_x.py::test_far",
    ]


def test_near_and_far_tests_have_half_of_the_budget_each() -> None:
    near = [recorded(f"{MIRROR}::test_{number}", 3.0) for number in range(9)]
    far = [recorded(f"tests/runtime/test_{file}.py::test_{number}", 3.0) for number in range(4) for file in "ab"]
    assert NearestTests([*near, *far], {}, 14).of(mutant()) == [
        f"{MIRROR}::test_0",
        f"{MIRROR}::test_1",
        "tests/runtime/test_a.py::test_0",
        "tests/runtime/test_b.py::test_0",
    ]


def test_one_test_runs_however_long_it_takes() -> None:
    tests = [recorded(f"{MIRROR}::test_long", 99.0)]
    assert NearestTests(tests, {}, 1).of(mutant()) == [f"{MIRROR}::test_long"]


def test_code_that_no_test_calls_has_the_tests_that_mention_its_module() -> None:
    sources = {
        MIRROR: "",
        "tests/runtime/test_a.py": "from kcr.workqueue.queue import Queue",
        "tests/runtime/test_b.py": "from kcr.workqueue import queue",
        "tests/runtime/test_c.py": "from kcr.workqueue import delaying",
    }
    tests = [recorded(f"{file}::test_x", 1.0, "other.py:f") for file in sources]
    expected = [f"{file}::test_x" for file in (MIRROR, "tests/runtime/test_a.py", "tests/runtime/test_b.py")]
    for entry in ("", "Queue.uncalled"):
        assert NearestTests(tests, sources, 60).of(mutant(entry=entry)) == expected


def test_code_outside_of_functions_has_the_tests_of_all_functions_of_its_module() -> None:
    tests = [
        recorded("tests/runtime/test_a.py::test_x"),
        recorded("tests/runtime/test_b.py::test_x", 1.0, "other.py:f"),
    ]
    assert NearestTests(tests, {}, 60).of(mutant(entry="")) == ["tests/runtime/test_a.py::test_x"]


def test_plugins_and_the_server_have_mirrors_as_well() -> None:
    for path, mirror in (
        ("controllers/job/decisions/pods.py", "tests/unit/controllers/job/decisions/test_pods.py"),
        ("devcluster/kcr_devcluster/apiserver/storage/storage.py", "tests/unit/apiserver/storage/test_storage.py"),
        ("kcr/tracing/spans.py", "tests/unit/test_tracing.py"),
    ):
        tests = [recorded("tests/apiserver/test_x.py::test_x", 0.1, f"{path}:f")]
        tests.append(recorded(f"{mirror}::test_x", 9.0, f"{path}:f"))
        assert NearestTests(tests, {}, 60).of(mutant(path, "f"))[0] == f"{mirror}::test_x"
