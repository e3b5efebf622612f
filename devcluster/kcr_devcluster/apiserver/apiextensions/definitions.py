"""Definitions in effect: from the commit of a CustomResourceDefinition on, its kinds are served, or are no longer.

Upstream, controllers inside of the API server do this (naming, establishing, finalizing), and requests see it after a
moment. Here it happens in the step of the write that calls for it, once watchers have the event of that write: updates
of the status are writes of their own, with events of their own, yet no request comes between. So the API server alone,
without the cluster's controllers, can define, serve and delete custom resources.

- A definition gets the names that are free, and is established when it has all of them.
- The kinds of an established definition are in `ServedIndex` and in the storage. When they change, watches on them end,
  as upstream's do: clients begin again and see objects as they are served now.
- A terminating definition deletes its objects, refuses new ones, and is deleted after the last object.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/controller/{status/naming_controller,
establish/establishing_controller,finalizer/crd_finalizer}.go; pkg/apiserver/customresource_handler.go.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.admission.chain import Admission
from kcr_devcluster.apiserver.apiextensions.conversion import ConversionWebhook
from kcr_devcluster.apiserver.apiextensions.naming import is_true, named_status, set_condition, used_names
from kcr_devcluster.apiserver.apiextensions.served_kinds import ServedKinds, kinds_of
from kcr_devcluster.apiserver.kinds.catalogue import CUSTOM_RESOURCE_DEFINITIONS
from kcr_devcluster.apiserver.kinds.definitions.strategy import CLEANUP_FINALIZER
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.served import ServedIndex
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.registry.deletion import DeleteOptions, delete
from kcr_devcluster.apiserver.registry.metadata import new_uid
from kcr_devcluster.apiserver.registry.registry import Registry
from kcr_devcluster.apiserver.storage.records import Change, Record

_CREATE_REFUSAL = "create not allowed while custom resource definition is terminating"
_IN_PROGRESS = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
_COMPLETED = ("InstanceDeletionCompleted", "removed all instances")
_NEVER_ESTABLISHED = ("NeverEstablished", "resource was never established")


class CustomResourceDefinitions:
    """Keeps the served kinds in line with the stored definitions.

    Attributes:
        on_change: Each is called when other kinds are served than before.
    """

    def __init__(
        self,
        registry: Registry,
        routes: ServedIndex,
        end_watches: Callable[[Kind], None],
        admission: Admission,
    ) -> None:
        """Serve the definitions that are stored, and from now on those that will be.

        Args:
            registry: Where definitions and objects are.
            routes: Where kinds are found.
            end_watches: Ends the watches on the objects of a kind.
            admission: Calls conversion webhooks.
        """
        self.on_change: list[Callable[[], object]] = []
        self._registry = registry
        self._storage = registry.storage
        self._routes = routes
        self._end_watches = end_watches
        self._admission = admission
        # By the name of the definition: its kinds, and the spec and accepted names that they were made from.
        self._kinds: dict[str, ServedKinds] = {}
        self._made_of: dict[str, tuple[Any, Any]] = {}
        cache = self._storage.cache(CUSTOM_RESOURCE_DEFINITIONS)
        cache.after_commit[self._on_commit] = None
        for record in tuple(cache.select()):
            self._reconcile(record)

    @property
    def served(self) -> tuple[tuple[Kind, ...], ...]:
        """The kinds that are served, for each definition those of all its versions, the storage version first."""
        found = (sorted(kinds.served, key=lambda kind: kind is not kinds.hub) for kinds in self._kinds.values())
        return tuple(tuple(kinds) for kinds in found if kinds)

    def _on_commit(self, change: Change) -> None:
        if change.new is not None:
            self._reconcile(change.new)
        else:
            crd = change.record.manifest()
            self._remove(crd["metadata"]["name"])
            self._rename_others(crd)

    def _reconcile(self, record: Record) -> None:
        """Bring the served kinds of one definition in line with it."""
        crd = record.manifest()
        status = named_status(crd, self._used_names(crd), self._registry.clock.now())
        if status != crd.get("status"):
            # Its own change brings this method back.
            self._storage.put(record.kind, {**crd, "status": status}, record)
            self._rename_others(crd)
            return
        if is_true(crd, "Established"):
            self._serve(crd)
        if record.metadata.deletion_timestamp is not None and CLEANUP_FINALIZER in record.metadata.finalizers:
            self._terminate(record, crd)

    def _definitions(self) -> list[Record]:
        return list(self._storage.cache(CUSTOM_RESOURCE_DEFINITIONS).select())

    def _used_names(self, crd: Manifest) -> Any:
        group, name = crd["spec"]["group"], crd["metadata"]["name"]
        others = [one for one in self._in_group(group) if one["metadata"]["name"] != name]
        return used_names(group, self._routes.builtin, others)

    def _in_group(self, group: str) -> list[Manifest]:
        # The group is the rest of the name: only those definitions need be decoded.
        return [one.manifest() for one in self._definitions() if one.metadata.name.partition(".")[2] == group]

    def _rename_others(self, crd: Manifest) -> None:
        """Consider the other definitions of a group again: names may be free now."""
        for one in self._in_group(crd["spec"]["group"]):
            name = one["metadata"]["name"]
            if name == crd["metadata"]["name"] or is_true(one, "NamesAccepted"):
                continue
            newest = self._storage.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
            if newest is not None:
                self._reconcile(newest)

    def _serve(self, crd: Manifest) -> None:
        """Serve the kinds of a definition, if they are others than those that are served."""
        name, names = crd["metadata"]["name"], crd["status"]["acceptedNames"]
        made_of = crd["spec"], names
        if same_json(self._made_of.get(name), made_of):
            return
        before, kinds = self._kinds.get(name), kinds_of(crd, names, self._webhook)
        self._kinds[name], self._made_of[name] = kinds, made_of
        self._storage.install(kinds.hub)
        self._routes.set_custom(name, kinds.served)
        if before is None:
            self._registry.quotas.follow(kinds.hub)
        else:
            self._end_watches(before.hub)
        self._notify()

    def _webhook(self, crd: Manifest) -> ConversionWebhook:
        return ConversionWebhook(crd, self._admission, lambda: new_uid(self._registry.random))

    def _notify(self) -> None:
        for call in self.on_change:
            call()

    def _terminate(self, record: Record, crd: Manifest) -> None:
        """Delete the objects of a definition, then the definition."""
        kinds = self._kinds.get(record.metadata.name)
        if kinds is None:
            self._finish(record, crd, _NEVER_ESTABLISHED)
            return
        if self._set_terminating(record, crd, "True", _IN_PROGRESS):
            return
        for kind in (kinds.hub, *kinds.served):
            kind.strategy.create_refusal = _CREATE_REFUSAL
        cache = self._storage.cache(kinds.hub)
        for one in tuple(cache.select()):
            with suppress(StatusError):
                delete(self._registry, one, DeleteOptions())
        if not cache.records:
            self._finish(record, crd, _COMPLETED)
            return

        def on_change(_: Change) -> None:
            newest = self._storage.get(record.kind, "", record.metadata.name)
            if not cache.records and newest is not None:
                cache.after_commit.clear()
                self._finish(newest, newest.manifest(), _COMPLETED)

        # The remaining objects have finalizers of their own.
        cache.after_commit.clear()
        cache.after_commit[on_change] = None

    def _set_terminating(self, record: Record, crd: Manifest, value: str, why: tuple[str, str]) -> bool:
        """Set the condition, and return whether that was a change."""
        conditions = crd["status"].get("conditions") or []
        changed = set_condition(conditions, "Terminating", value, why, self._registry.clock.now())
        if changed == conditions:
            return False
        self._storage.put(record.kind, {**crd, "status": {**crd["status"], "conditions": changed}}, record)
        return True

    def _finish(self, record: Record, crd: Manifest, why: tuple[str, str]) -> None:
        """Remove the finalizer; when it was the last one, the definition is deleted."""
        conditions = set_condition(
            crd["status"].get("conditions") or [], "Terminating", "False", why, self._registry.clock.now()
        )
        finalizers = [one for one in crd["metadata"]["finalizers"] if one != CLEANUP_FINALIZER]
        metadata = {**crd["metadata"], "finalizers": finalizers}
        if not finalizers:
            del metadata["finalizers"]
        new = {**crd, "metadata": metadata, "status": {**crd["status"], "conditions": conditions}}
        self._registry.store(record, new, crd)

    def _remove(self, name: str) -> None:
        """Serve a definition no longer."""
        kinds = self._kinds.pop(name, None)
        self._made_of.pop(name, None)
        if kinds is None:
            return
        self._routes.set_custom(name, ())
        self._end_watches(kinds.hub)
        self._registry.quotas.unfollow(kinds.hub)
        self._storage.drop(kinds.hub)
        self._notify()
