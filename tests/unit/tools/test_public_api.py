import pytest

from tools.public_api import breaks, lines_of, unexplained

PAGE = """# kcr

## Job

```text
class Job(Resource)
    spec: JobSpec
    status: JobStatus = JobStatus()
```

A Job.

## Queue

```text
class Queue(Generic[K])
Queue(size: int, *, fair: bool = False)
```

A queue.

**Attributes**:

- `depth`: The number
  of keys.

### Queue.get

```text
async Queue.get(
    seconds: 'float' = 1.0,
) -> K
```

Return a key.
"""
OPTIONS = (
    "## `kcr run`\n\n| option |\n|---|\n| `--workers N` | `KCR_WORKERS` | a |\n| `-n NAME`, `--namespace NAME` |\n"
)
METRICS = "| metric | type |\n|---|---|\n| `depth` | gauge | `name`, `priority` | Keys |\n"


def test_each_name_of_the_pages_is_a_line() -> None:
    assert lines_of({"kcr.md": PAGE, "command-line.md": OPTIONS, "metrics.md": METRICS, "README.md": PAGE}) == [
        "metric depth: gauge(`name`, `priority`)",
        "kcr run --namespace",
        "kcr run --workers",
        "kcr.Job(spec: JobSpec, status: JobStatus = JobStatus())",
        "kcr.Queue(size: int, *, fair: bool = False)",
        "kcr.Queue.depth",
        "async kcr.Queue.get(seconds: float = 1.0) -> K",
    ]


def test_name_that_is_described_on_another_page_is_a_line_of_both() -> None:
    lines = lines_of({"kcr.md": PAGE, "kcr.work.md": "Described as those of `kcr`: [`Queue`](kcr.md#queue).\n"})
    assert [line for line in lines if "kcr.work" in line] == [
        "kcr.work.Queue(size: int, *, fair: bool = False)",
        "kcr.work.Queue.depth",
        "async kcr.work.Queue.get(seconds: float = 1.0) -> K",
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("kcr.f(a: int) -> None", None, True, id="gone"),
        pytest.param("kcr.f(a: int) -> None", "kcr.f(a: int) -> None", False, id="same"),
        pytest.param("kcr.f(a: int) -> None", "kcr.f(a: int, b: int = 0) -> None", False, id="added-with-default"),
        pytest.param("kcr.f(a: int) -> None", "kcr.f(a: int, b: int) -> None", True, id="added-without-default"),
        pytest.param("kcr.f(*, c: int = 0) -> None", "kcr.f(*, b: int = 0, c: int = 0) -> None", False, id="keyword"),
        pytest.param("kcr.f(*, c: int = 0) -> None", "kcr.f(*, b: int, c: int = 0) -> None", True, id="wanted-keyword"),
        pytest.param("kcr.f(*, c: int = 0) -> None", "kcr.f() -> None", True, id="keyword-gone"),
        pytest.param("kcr.f(a: int) -> None", "kcr.f(b: int) -> None", True, id="renamed"),
        pytest.param("kcr.f(a: int = 0) -> None", "kcr.f(a: int = 1) -> None", True, id="other-default"),
        pytest.param("kcr.f(a: int, b: int)", "kcr.f(b: int, a: int)", True, id="other-order"),
        pytest.param("kcr.f(a: int) -> None", "kcr.f(*, a: int) -> None", True, id="keyword-only-now"),
        pytest.param("kcr.f(a: int, *more: int)", "kcr.f(a: int)", True, id="no-more"),
        pytest.param("kcr.f() -> int", "kcr.f() -> str", True, id="other-result"),
        pytest.param("kcr.f() -> int", "async kcr.f() -> int", True, id="a-coroutine-now"),
        pytest.param("kcr.C.x: int", "kcr.C.x: str", True, id="property"),
        pytest.param("kcr.C.x: int", "kcr.C.x", False, id="property-is-an-attribute"),
        pytest.param("kcr.C.x", "kcr.C.x: int", False, id="attribute-is-a-property"),
        pytest.param("kcr.C.x", "kcr.C.x() -> int", True, id="attribute-is-a-method"),
        pytest.param("metric d: gauge(`name`)", "metric d: gauge(`name`, `priority`)", True, id="labels"),
        pytest.param("kcr run --workers", "kcr run --workers", False, id="option"),
    ],
)
def test_change_breaks_if_a_use_of_before_may_fail(old: str, new: str | None, expected: bool) -> None:
    assert breaks(old, new) is expected


@pytest.mark.parametrize(
    ("notes", "missing"),
    [
        pytest.param("- `Queue.get` is gone.", [], id="named"),
        pytest.param("- `Queue.\n  get` is gone.", [], id="over-two-lines"),
        pytest.param("- get is gone.", ["kcr.Queue.get() -> K"], id="not-as-code"),
        pytest.param("- `Queue.getter` is gone.", ["kcr.Queue.get() -> K"], id="another-name"),
    ],
)
def test_entry_names_what_is_gone(notes: str, missing: list[str]) -> None:
    assert (
        unexplained(["kcr.Queue.get() -> K", "kcr.Queue.put() -> None"], ["kcr.Queue.put() -> None"], notes) == missing
    )
