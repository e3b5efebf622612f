"""Kubernetes controllers in Python.

A controller moves the actual state towards the desired state of an object. Its author writes one coroutine,
`reconcile`, which gets the key of an object that may have changed, compares the two states, and writes the difference
(level-triggered, idempotent). kcr provides everything else:

```python
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap


class WebsiteSpec(kcr.Object):
    image: str
    replicas: int = 1


class Website(kcr.Resource, api_version="example.dev/v1", plural="websites"):
    spec: WebsiteSpec


class WebsiteReconciler:
    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client  # talks to the API server
        self._websites = manager.store(Website)  # the informer's cache

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        website = self._websites.get(key)
        if website is None:
            return kcr.Result()
        config = ConfigMap(metadata=kcr.ObjectMeta(name=key.name, namespace=key.namespace))
        await kcr.create_or_patch(
            self._client,
            kcr.set_controller(config, website),  # deleted with its website
            lambda found: replace(found, data={"image": website.spec.image}),
        )
        return kcr.Result()


def setup(manager: kcr.Manager) -> None:
    manager.add_controller(
        "website",
        WebsiteReconciler(manager),
        watches=[kcr.watch(Website), kcr.owned(ConfigMap, by=Website)],
        workers=10,
    )


if __name__ == "__main__":
    kcr.run(setup)
```

The path of a change: a watch updates a *store*, handlers enqueue a *key* in a *work queue*, a *worker* takes it and
reconciles, and its writes return as watch events. A key is never processed concurrently, changes while it waits are
coalesced, and a failed key is requeued with exponential backoff.

- Objects are frozen values: subclass `Object` and `Resource`, change with `msgspec.structs.replace`. The conditions of
  a status are set with `set_condition` and read with `find_condition` and `is_condition_true`; the status is written
  with `client.patch_status(old, new)`.
- `kcr crd generate` writes the CustomResourceDefinition of such a class (`crd_manifest`), `kcr types generate` classes
  for existing definitions. Built-in kinds have views for caches (`kcr.api.core`) and complete types (`kcr.api.full`).
- `unstructured("example.dev/v1", "Widget", plural="widgets")` is a kind without a class: typed metadata, and all
  other fields as bytes, decoded when read. `metadata_only(Pod)` requests and caches metadata alone.
- `Client` sends every read to the server; cached reads are `Manager.store`, with indexes (`Store.add_index`).
  `Selection` limits the cached objects of a kind. `connect` makes a client that blocks, for scripts and notebooks.
- `watch(Kind, predicate=…)` filters changes: `generation_changed`, and those of `kcr.controller`: `labels_changed`,
  `annotations_changed`, `finalizers_changed`, `labels_match`, combined by `any_of`, `all_of` and `none_of`.
  `map_to=keys_by_index(…)` enqueues the objects that refer to a changed one; `Result(requeue_after=600, jitter=0.1)`
  resyncs.
- `Manager.add_watch` and `Manager.open_informer` watch further kinds at run time.
- `Manager` starts informers, then controllers, and stops them in the reverse order; `expose` serves metrics, probes
  and, to this machine, `/debug/kcr`. A reconciler's method `explain` explains the state of an object there
  (`Explanation`, `Code`, `Step`).
  With leader election one of several replicas runs its controllers, the others stand by: `run(leader_elect=True)`.
  Under `Sharding` every replica reconciles its share of the objects. `Namespaces` are a set that may change.
- Failures are one tree, `KcrError`: `ApiError` for a refusal of the server, `TransportError` for a write with an
  unknown result, `TerminalError` for an error that no retry can fix, `RetryLater` for a missing prerequisite.
  `WaitFor` parks the key until an object is as wanted.
- `Clusters` are member clusters: one program reconciles the objects of several clusters (`Key.cluster`).
- `in_thread` calls blocking code in a thread.
- `Manager.add_webhook(Kind, webhook)` serves admission: an object with methods `default` and `validate_create`,
  `validate_update`, `validate_delete`, which raise `Denied`; see `WebhookRequest`. `Manager.add_conversion(Kind)`
  serves the functions of `converts` between versions of a kind.
- For controllers that own other objects: creation and deletion with events (`DependentControl`), all wanted
  children of several kinds (`Children`), `readiness` (`is_ready`), owner references (`set_controller`), finalizers
  (`finalized`), and `create_or_patch`; more is in `kcr.dependents`.
- `kcr.testing` runs controllers in virtual time; `kcr dev` is a development cluster in one process.
"""

import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path


@cache
def _homes() -> dict[str, str]:
    """Return the module of each public name, as `__init__.pyi` lists them."""
    text = (pkgutil.get_data(__name__, "__init__.pyi") or b"").decode()
    found = re.findall(r"^from (\S+) import (\([^)]*\)|.*)$", text, re.MULTILINE)
    return {name: home for home, names in found for name in sorted(re.findall(r"\w+(?= as )", names))}


# What users of other libraries look for.
_HABITS = {
    "on": "manager.add_controller(…, watches=[kcr.watch(…)])", "Request": "kcr.Key", "TemporaryError": "kcr.RetryLater",
    "timer": "kcr.Result(requeue_after=…)",
}  # fmt: skip


def _remedy(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  # for this mistake alone
    from importlib.util import find_spec  # noqa: PLC0415

    if find_spec(f"kcr.{name}"):
        return f": import kcr.{name}"
    root = Path(__file__).parent
    for path in sorted(root.glob("api/**/*.py")):
        if f"\nclass {name}(" in path.read_text(encoding="utf-8"):
            return f": it is in kcr.{'.'.join(path.relative_to(root).with_suffix('').parts)}"
    near = [_HABITS[name]] if name in _HABITS else [f"kcr.{one}" for one in get_close_matches(name, _homes(), 1)]
    return f": use {near[0]}" if near else ""


# Modules are imported when a name of them is first used: the pytest plugin and the command line import this package in
# every process, and the HTTP client alone takes a sixth of a second.
def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_homes())
    if name not in _homes():
        raise AttributeError(f"module 'kcr' has no attribute {name!r}{'' if name.startswith('_') else _remedy(name)}")
    value = globals()[name] = getattr(importlib.import_module(_homes()[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(_homes())
