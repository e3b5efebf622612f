"""The objects of a review, in the versions that webhooks and policies ask for.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/conversion.go, VersionedAttributes.
"""

import msgspec

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.kinds.kind import SUBRESOURCE_KINDS, Kind
from kcr_devcluster.apiserver.protocol.gojson import kind_of
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.replay import replay
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.registry.metadata import decode_metadata
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes

_NO_TYPE = "couldn't get version/kind; json parse error: json:"
_TYPE = ("kind", "apiVersion", "metadata")


class Review:
    """The objects of one review, and the warnings of its plugins.

    Attributes:
        attributes: The request.
        obj: The object, of the kind `attributes.kind`; None for a DELETE.
        old: The stored object; None for a CREATE and a CONNECT.
        warnings: Texts for the client.
    """

    def __init__(self, attributes: AdmissionAttributes, obj: Manifest | None, old: Manifest | None) -> None:
        self.attributes = attributes
        self.obj = obj
        self.old = old
        self.warnings: list[str] = []

    async def versioned(self, kind: Kind) -> tuple[Manifest | None, Manifest | None]:
        """Return copies of the new and the old object as ones of another version of their kind.

        Raises:
            StatusError: 500, they cannot be converted.
        """
        source = self.attributes.kind
        return await self._converted(self.obj, source, kind), await self._converted(self.old, source, kind)

    async def _converted(self, obj: Manifest | None, source: Kind, target: Kind) -> Manifest | None:
        if obj is None:
            return None
        if self.attributes.subresource in SUBRESOURCE_KINDS:
            # A Scale is the same in all versions of the object that it scales.
            return copied(obj)

        async def step() -> Manifest:
            return convert(obj, source, target)

        return await replay(step)


class MutatingReview(Review):
    """A review in the mutating phase: plugins may change the object.

    Attributes:
        obj: The object as the plugins so far leave it; None for a DELETE.
        is_reinvocation: Whether this is the second round, after the first has changed the object.
        is_changed: Whether a plugin has changed the object in this round.
        memory: The memory of each plugin from the first round for the second, by its name.
        version: The version of Kubernetes, whose fields the object may have.
    """

    def __init__(
        self,
        attributes: AdmissionAttributes,
        obj: Manifest | None,
        old: Manifest | None,
        memory: dict[str, object],
        version: str,
    ) -> None:
        super().__init__(attributes, obj, old)
        self.version = version
        self.is_reinvocation = bool(memory)
        self.is_changed = False
        self.memory = memory

    async def change(self, kind: Kind, obj: Manifest) -> bool:
        """Replace the object, and set the defaults of its schema; return whether it differs from the one before.

        Args:
            kind: The version of the object that is given.
            obj: The new object.

        Raises:
            StatusError: 400 or 500, it is no object of its kind.
        """
        is_own = self.attributes.subresource not in SUBRESOURCE_KINDS
        if is_own:
            _check_type(kind, obj)
            # Before all else: selectors, conversions and the next webhooks count on valid metadata.
            obj = {**obj, "metadata": decode_metadata(kind, obj.get("metadata"))}
        new = await self._converted(obj, kind, self.attributes.kind)
        assert new is not None
        if is_own:
            if self.attributes.kind.custom is None:
                self.attributes.kind.shape_in(self.version).prune(new)
            self.attributes.kind.strategy.default(new)
        is_changed = not same_json(new, self.obj)
        self.obj, self.is_changed = new, self.is_changed or is_changed
        return is_changed


def _check_type(kind: Kind, obj: Manifest) -> None:
    """Refuse an object of another kind; a missing kind or version is that of the webhook, as Go's decoder has it."""
    wanted = {"apiVersion": kind.type.api_version, "kind": kind.type.kind}
    found = {name: value if (value := obj.get(name)) is not None else "" for name in wanted}
    for name, value in found.items():
        if not isinstance(value, str):
            words = f"{_NO_TYPE} cannot unmarshal {kind_of(value)} into Go struct field .{name} of type string"
            raise StatusError(500, "", words)
    given = {name: found[name] or wanted[name] for name in wanted}
    if given != wanted:
        source = f"{given['apiVersion'].rpartition('/')[2]}.{given['kind']}"
        target = f"{kind.type.group.partition('.')[0] or 'core'}.{kind.type.kind}"
        raise StatusError(500, "", f"converting ({source}) to ({target}): unknown conversion")


def convert(obj: Manifest, source: Kind, target: Kind) -> Manifest:
    """Return an object as one of another version of its kind; it is not changed itself."""
    new = copied(obj)
    if source is not target and source.converter is not None:
        (new,) = source.converter.converted([new], target.type.version)
    elif source is not target:
        if source.conversion is not None:
            source.conversion.to_hub(new)
        if target.conversion is not None:
            target.conversion.from_hub(new)
    metadata = {name: value for name, value in new["metadata"].items() if name != "resourceVersion" or value}
    rest = {name: value for name, value in new.items() if name not in _TYPE}
    return {"kind": target.type.kind, "apiVersion": target.type.api_version, "metadata": metadata, **rest}


def copied(obj: Manifest) -> Manifest:
    """Return a copy that shares nothing with the object."""
    copy: Manifest = msgspec.json.decode(msgspec.json.encode(obj))
    return copy
