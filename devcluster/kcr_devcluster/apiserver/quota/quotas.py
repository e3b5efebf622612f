"""Quota admission: objects are refused that would exceed a quota of their namespace.

Updates are checked of the kinds whose usage may grow: Services and claims. The watch caches notify of every change in
the same step in which it happens, so a limit holds exactly: no two creations can both use the rest of a quota.
"""

from collections.abc import Callable

from kcr.api.meta import Key
from kcr_devcluster.apiserver.kinds.catalogue import RESOURCE_QUOTAS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import forbidden
from kcr_devcluster.apiserver.quota.account import TrackedQuota
from kcr_devcluster.apiserver.quota.usage import GROWING, NO_USAGE
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, AdmissionContext, AdmissionStep
from kcr_devcluster.apiserver.storage.records import Change, Record


class QuotaAdmission(AdmissionStep):
    """The admission plugin ResourceQuota.

    Without quotas no changes are followed, and a creation costs one look-up.
    """

    def __init__(self, context: AdmissionContext) -> None:
        super().__init__(context)
        self._subscribers: list[Callable[[Key], object]] = []
        self._clock, storage, kinds = context.clock, context.storage, context.kinds
        self._caches = [storage.cache(kind) for kind in kinds if kind.type.namespaced and kind.conversion is None]
        # By namespace, then by name; a namespace without quotas has no entry.
        self._quotas: dict[str, dict[str, TrackedQuota]] = {}
        quotas = storage.cache(RESOURCE_QUOTAS)
        quotas.subscribers[self._on_quota] = None
        for record in quotas.select():
            self._on_quota(Change(record.revision, None, record))

    def follow(self, kind: Kind) -> None:
        """Count the objects of a kind that is served from now on."""
        if not kind.type.namespaced:
            return
        cache = self._storage.cache(kind)
        self._caches.append(cache)
        if self._quotas:
            cache.subscribers[self._on_change] = None
            for record in cache.select():
                self._on_change(Change(record.revision, None, record))

    def unfollow(self, kind: Kind) -> None:
        """Count the objects of a kind no longer: it is not served, and there are none."""
        if kind.type.namespaced:
            self._caches.remove(self._storage.cache(kind))

    def check(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Admit a new object that exceeds no quota of its namespace.

        Raises:
            StatusError: 403, one is exceeded.
        """
        self._check(attributes, obj, None)

    def check_update(self, attributes: AdmissionAttributes, obj: Manifest, old: Manifest) -> None:
        """Admit a new version that uses no more than the quotas of its namespace allow.

        Raises:
            StatusError: 403, one is exceeded.
        """
        if attributes.kind in GROWING:
            self._check(attributes, obj, old)

    def _check(self, attributes: AdmissionAttributes, obj: Manifest, old: Manifest | None) -> None:
        quotas = self._quotas.get(obj["metadata"].get("namespace", ""))
        if quotas is None:
            return
        kind, now = attributes.kind, self._clock.now()
        for name in sorted(quotas):
            if why := quotas[name].rejection(kind, obj, old, now):
                raise forbidden(kind.type, obj["metadata"]["name"], why)

    def subscribe(self, call: Callable[[Key], object]) -> None:
        """Call back with the key of each quota whose status may be out of date: with those of all quotas at once."""
        self._subscribers.append(call)
        for namespace, quotas in self._quotas.items():
            for name in quotas:
                call(Key(namespace, name))

    def status(self, key: Key) -> Manifest | None:
        """Return the status a quota should have, None when there is no such quota."""
        quota = self._quotas.get(key.namespace, {}).get(key.name)
        return None if quota is None else quota.status(self._clock.now())

    def _on_quota(self, change: Change) -> None:
        namespace, name = change.record.metadata.namespace, change.record.metadata.name
        if change.new is None:
            self._close(namespace, name)
            return
        known = self._quotas.get(namespace, {}).get(name)
        spec = change.new.manifest().get("spec") or {}
        if known is None or known.spec != spec:
            self._open(namespace, TrackedQuota(name, spec))

    def _open(self, namespace: str, quota: TrackedQuota) -> None:
        if not self._quotas:
            for cache in self._caches:
                cache.subscribers[self._on_change] = None
        self._quotas.setdefault(namespace, {})[quota.name] = quota
        for cache in self._caches:
            for record in cache.select(namespace):
                quota.set_usage(_key(record), quota.usage_of(record.kind, record.manifest()))
        self._report(Key(namespace, quota.name))

    def _close(self, namespace: str, name: str) -> None:
        quotas = self._quotas[namespace]
        del quotas[name]
        if not quotas:
            del self._quotas[namespace]
        if not self._quotas:
            for cache in self._caches:
                del cache.subscribers[self._on_change]

    def _on_change(self, change: Change) -> None:
        record = change.record
        quotas = self._quotas.get(record.metadata.namespace)
        if quotas is None:
            return
        obj = None if change.new is None else change.new.manifest()
        for quota in quotas.values():
            usage = NO_USAGE if obj is None else quota.usage_of(record.kind, obj)
            if quota.set_usage(_key(record), usage):
                self._report(Key(record.metadata.namespace, quota.name))

    def _report(self, key: Key) -> None:
        for call in self._subscribers:
            call(key)


def _key(record: Record) -> str:
    return f"{record.kind.type.display}/{record.key}"
