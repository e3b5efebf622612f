"""The tables of wrong inputs: their form, their answers, and the public callables that they have to cover.

```
# kcr.watch
kcr.watch("Site")
    TypeError: watch: kind is 'Site': give it a kind, a class derived from kcr.Resource
```

`python -m tests.kit.boundary.rows` writes the present answers into the tables; read each before it is committed.
"""

import ast
import asyncio
import importlib
import inspect
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

FOLDER = Path(__file__).parents[2] / "boundary" / "rows"

PAGES = (
    "kcr", "kcr.testing", "kcr.testing.build", "kcr.dependents", "kcr.client", "kcr.workqueue",
    "kcr_devcluster.cluster",
)  # fmt: skip

# Public callables without rows, and why. A class stands for its methods, too.
EXEMPT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "kcr.Condition", "kcr.controller.ControllerOptions", "kcr.Explanation", "kcr.FullResource", "kcr.Key",
            "kcr.Object", "kcr.ObjectMeta", "kcr.api.meta.OwnerReference", "kcr.api.meta.PartialObjectMetadata",
            "kcr.dependents.Readiness",
            "kcr.workqueue.Reason", "kcr.Resource", "kcr.ResourceView", "kcr.Result", "kcr.Step",
            "kcr.workqueue.Reason", "kcr.Unstructured", "kcr.WebhookRequest",
        ),
        "values that are made often: what takes them checks them",
    ),
    **dict.fromkeys(
        (
            "kcr.informer.InformerHandle", "kcr.scopes.leaderelection.LeaderElector", "kcr.clusters.MemberCluster",
            "kcr.metrics.Metrics", "kcr.controller.Source", "kcr.Store", "kcr.informer.Trigger",
            "kcr.client.Credential", "kcr.client.FixedCredentials", "kcr.client.PemSource", "kcr.client.Pressure",
            "kcr.client.ExecResult", "kcr.client.ExecStream", "kcr.client.ExecStream.write", "kcr.client.Request",
            "kcr.dependents.Attempts", "kcr.dependents.Claimed", "kcr.dependents.Ensured",
            "kcr.dependents.EnsuredChildren", "kcr.dependents.Failure", "kcr.dependents.Scaling",
            "kcr.testing.AdmissionResult", "kcr.testing.ApiServer", "kcr.testing.Rule", "kcr.workqueue.KeyState",
        ),
        "kcr makes them, or the functions of rows do",
    ),
    **dict.fromkeys(
        (
            "kcr.controller.annotations_changed", "kcr.controller.finalizers_changed", "kcr.generation_changed",
            "kcr.controller.labels_changed", "kcr.controller.resource_version_changed", "kcr.informer.Handler",
            "kcr.Namespaces.on_add", "kcr.Namespaces.on_delete", "kcr.Namespaces.on_update",
            "kcr.controller.reconcile_requested_at",
        ),
        "kcr calls them, with every change",
    ),
    **dict.fromkeys(
        (
            "kcr.ApiError", "kcr.dependents.AlreadyOwnedError", "kcr.dependents.AlteredObjectError",
            "kcr.dependents.QuotaExceededError", "kcr.dependents.UnconfirmedCreateError",
        ),
        "kcr raises them",
    ),
    "kcr.Code": "an enumeration",
    "kcr_devcluster.cluster.InProcessTransport": "the cluster makes it",
    "kcr.Manager.run": "it takes no arguments",
    "kcr.is_namespace_ending": "it takes any exception",
    "kcr.dependents.is_namespace_ending": "it takes any exception",
}  # fmt: skip

# The methods that authors call. The others of these classes are called by kcr.
METHODS: Mapping[str, str] = {
    "kcr.Client": (
        "get list list_page watch create create_manifest update update_manifest apply apply_manifest patch "
        "patch_status merge_patch strategic_patch json_patch delete scale set_scale evict bind log follow_log "
        "exec exec_stream port_forward with_options"
    ),
    "kcr.Controller": "watch declare",
    "kcr.client.HttpTransport": "",
    "kcr.informer.Informer": "add_handler",
    "kcr.Namespaces": "change",
    "kcr.OwnWrites": "wrote require_version await_deletion",
    "kcr.Selection": "",
    "kcr.Store": "get list by_index add_index",
    "kcr.WaitFor": "absence",
    "kcr.workqueue.WorkQueue": "add add_after",
    "kcr.client.RateLimit": "",
    "kcr.client.SyncClient": "watch wait follow_log",
    "kcr.dependents.EventEmitter": "",
    "kcr.testing.CrashingTransport": "crash_after lose_reply",
    "kcr.testing.Rule": "during fail delay then lose_request lose_reply arrive_late freeze cut lag change draw",
    "kcr.testing.FakeInformer": "add modify delete relist",
    "kcr.testing.FakeManager": "recorder relist",
    "kcr.testing.FakeSource": "add modify delete fail_lists",
    "kcr.testing.FaultyTransport": "on",
    "kcr.workqueue.BucketRateLimiter": "",
    "kcr.workqueue.ItemExponential": "",
    "kcr.workqueue.MaxOf": "",
    "kcr_devcluster.cluster.EmbeddedCluster": "client_as serve",
    "kcr_devcluster.cluster.ListenerFaults": "add",
}


class Row(NamedTuple):
    """A wrong input, its answer, and the callables that its heading names."""

    code: str
    answer: str
    about: tuple[str, ...]


def read_rows() -> list[Row]:
    """Return the rows of all tables."""
    return [row for path in sorted(FOLDER.glob("*.txt")) for row in _rows_in(path.read_text(encoding="utf-8"))]


def _rows_in(text: str) -> Iterator[Row]:
    about: tuple[str, ...] = ()
    code = ""
    for line in filter(str.strip, text.splitlines()):
        if line.startswith("# "):
            about = tuple(line[2:].split())
        elif line.startswith("    "):
            yield Row(code, line.strip(), about)
            code = ""
        else:
            assert not code, f"{code}: it has no answer"
            code = line
    assert not code, f"{code}: it has no answer"


def covered() -> set[str]:
    """Return the callables that have rows."""
    return {name for row in read_rows() for name in row.about}


def public_callables() -> Iterator[str]:
    """Yield the public functions, constructors and methods that take arguments, but those that are exempt."""
    seen = set[int]()
    for page in PAGES:
        module = importlib.import_module(page)
        for name in getattr(module, "__all__", None) or _functions_of(module):
            value = getattr(module, name)
            if id(value) not in seen and (f"{page}.{name}" not in EXEMPT or f"{page}.{name}" in METHODS):
                seen.add(id(value))
                yield from _callables_in(f"{page}.{name}", value)


def resolved(name: str) -> Any:
    """Return what a public name stands for; None for nothing."""
    first, *parts = name.split(".")
    found: Any = importlib.import_module(first)
    for part in parts:
        found = getattr(found, part, None)
    return found


def _functions_of(module: Any) -> list[str]:
    own = inspect.getmembers(module, inspect.isfunction)
    return [name for name, value in own if value.__module__ == module.__name__ and not name.startswith("_")]


def _callables_in(name: str, value: Any) -> Iterator[str]:
    if inspect.isfunction(value) and inspect.signature(value).parameters:
        yield name
    if not isinstance(value, type) or getattr(value, "_is_protocol", False):
        return
    is_error = issubclass(value, BaseException)
    if (not is_error or "__init__" in vars(value)) and inspect.signature(value).parameters and name not in EXEMPT:
        yield name
    if issubclass(value, tuple | msgspec.Struct) or (is_error and name not in METHODS):
        return
    methods = METHODS[name].split() if name in METHODS else _methods_of(value)
    yield from (f"{name}.{one}" for one in methods if f"{name}.{one}" not in EXEMPT)


def _methods_of(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        for name, found in vars(base).items() if base.__module__.startswith("kcr") else ():
            function = getattr(found, "__func__", found)
            takes = [one for one in inspect.signature(function).parameters if one not in ("self", "cls")] if (
                inspect.isfunction(function)
            ) else []  # fmt: skip
            if takes and not name.startswith("_"):
                yield name


def answer(code: str) -> str:
    """Return the answer to a row: its exception, the text that it returns, or `accepted`."""
    try:
        result = _evaluate(code)
    except Exception as error:
        return _text(error)
    return result if isinstance(result, str) else "accepted"


async def answered(code: str) -> str:
    """Return the answer to a row with `await`."""
    try:
        result = await _evaluate(code)
    except Exception as error:
        return _text(error)
    return result if isinstance(result, str) else "accepted"


def _evaluate(code: str) -> Any:
    names = importlib.import_module("tests.kit.boundary.names")
    return eval(compile(code, "row", "eval", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), vars(names).copy())


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".replace(f"{Path.cwd()}/", "")


def write() -> None:
    """Write the present answers into the tables."""
    from kcr_devcluster.testing.loop import VirtualLoop  # noqa: PLC0415  # for this command alone

    for path in sorted(FOLDER.glob("*.txt")):
        lines: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("    "):
                continue
            lines.append(line)
            if line.strip() and not line.startswith("#"):
                with tempfile.TemporaryDirectory() as folder:
                    signal.alarm(5)
                    before = Path.cwd()
                    os.chdir(folder)
                    try:
                        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
                            found = runner.run(answered(line)) if "await " in line else answer(line)
                    finally:
                        os.chdir(before)
                lines.append(f"    {found}")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
