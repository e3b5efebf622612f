"""Copies ConfigMaps into other namespaces, and keeps the copies right.

A ConfigMap asks for it with the label `copier.example.dev/copy: "true"` and names the namespaces in the annotation
`copier.example.dev/to: blue,green`. A copy goes when its source no longer asks for it, or is gone.

Run it on the cluster of your kubeconfig: `python -m examples.configmap_copier.copier`
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap

COPY = "copier.example.dev/copy"
TO = "copier.example.dev/to"
# Set on copies: the key of the source, as namespace/name.
FROM = "copier.example.dev/from"
# How soon to look whether a namespace that was missing is there.
PATIENCE = timedelta(seconds=10)


class Copier:
    """Makes the copies of one source what they are to be."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client
        self._recorder = manager.recorder("configmap-copier")
        self._store = manager.store(ConfigMap)
        self._store.add_index("from", source_of)

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        """Look at one source, which may be gone, and at all of its copies."""
        source = self._store.get(key)
        wanted = {} if source is None else {copy.key: copy for copy in copies_of(source)}
        for copy in self._store.by_index("from", str(key)):
            if copy.key not in wanted:
                await self._delete(copy)
        if source is None:
            return kcr.Result()
        put = [await self._put(source, copy) for copy in wanted.values()]
        return kcr.Result(requeue_after=None if all(put) else PATIENCE)

    async def _put(self, source: ConfigMap, copy: ConfigMap) -> bool:
        """Create or change a copy; return whether it is there now."""
        found = self._store.get(copy.key)
        try:
            if found is None:
                await self._client.create(copy)
            elif source_of(found) == source_of(copy):
                await self._client.patch(found, replace(found, data=copy.data, binary_data=copy.binary_data))
            else:
                self._recorder.event(source, "Warning", "NameTaken", f"{copy.key} is there, and no copy of this")
        except (kcr.NotFoundError, kcr.ForbiddenError) as error:
            # The namespace does not exist yet or is terminating, or the copy has just been deleted.
            if not isinstance(error, kcr.NotFoundError) and not kcr.is_namespace_ending(error):
                raise
            self._recorder.event(source, "Warning", "NotCopied", f"{copy.key} cannot be written: {error}")
            return False
        return True

    async def _delete(self, copy: ConfigMap) -> None:
        try:
            # Not what may have got this name since.
            await self._client.delete(copy)
        except kcr.NotFoundError:
            return


def copies_of(source: ConfigMap) -> Iterator[ConfigMap]:
    """Yield what a source asks for. A copy asks for nothing, for it has neither label nor annotation."""
    metadata = source.metadata
    if metadata.labels.get(COPY) != "true" or metadata.deletion_timestamp is not None:
        return
    asked = {name.strip() for name in metadata.annotations.get(TO, "").split(",")}
    for namespace in sorted(asked - {"", metadata.namespace}):
        copied = kcr.ObjectMeta(name=metadata.name, namespace=namespace, annotations={FROM: str(source.key)})
        yield ConfigMap(metadata=copied, data=source.data, binary_data=source.binary_data)


def source_of(obj: ConfigMap) -> tuple[str, ...]:
    """Return the key of a copy's source; nothing for what is no copy."""
    source = obj.metadata.annotations.get(FROM)
    return () if source is None else (source,)


def keys(obj: ConfigMap) -> Iterable[kcr.Key]:
    """Return whom a change concerns: a copy its source, and any other ConfigMap itself."""
    return [kcr.Key(*source.partition("/")[::2]) for source in source_of(obj)] or [obj.key]


def setup(manager: kcr.Manager) -> None:
    """Attach the controller to a manager."""
    manager.add_controller("configmap-copier", Copier(manager), watches=[kcr.watch(ConfigMap, map_to=keys)])


if __name__ == "__main__":
    kcr.run(setup)
