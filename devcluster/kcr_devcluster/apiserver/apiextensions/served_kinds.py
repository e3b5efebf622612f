"""The kinds that a CustomResourceDefinition makes: one for each version, all with the objects of the storage version.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go,
getOrCreateServingInfoFor; pkg/apiserver/conversion/{converter,nop_converter}.go.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import msgspec

from kcr.api.equality import same_json
from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.apiextensions.conversion import ConversionWebhook, WebhookConverter
from kcr_devcluster.apiserver.apiextensions.custom_resources import CustomResourceStrategy
from kcr_devcluster.apiserver.kinds.definitions.validation import schema_of
from kcr_devcluster.apiserver.kinds.kind import ColumnDefinition, Conversion, CustomVersion, Kind, ScalePaths
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.structural.shapes import StructuralShape, shape_of, without_defaults

_NOT_SUPPORTED = "field label not supported: {}"


class ServedKinds(NamedTuple):
    """The kinds that a definition makes.

    Attributes:
        hub: The kind of the storage version, served or not.
        served: The kinds that are served, one for each version.
    """

    hub: Kind
    served: tuple[Kind, ...]


def kinds_of(crd: Manifest, names: Manifest, webhook: Callable[[Manifest], ConversionWebhook]) -> ServedKinds:
    """Return the kinds of a definition.

    Args:
        crd: The definition, valid and with its defaults.
        names: The names that are accepted.
        webhook: Makes the webhook of a definition.
    """
    versions, conversion = crd["spec"]["versions"], crd["spec"].get("conversion") or {}
    storage = next(version for version in versions if version.get("storage"))
    converter = WebhookConverter(webhook(crd)) if conversion.get("strategy") == "Webhook" else None
    stored = {version["name"]: _kind(crd, names, version, converter) for version in versions}
    if converter is not None:
        converter.kinds.update(stored)
    hub = stored[storage["name"]]
    kinds = [hub if version is storage else _view(stored[version["name"]], hub) for version in versions]
    served = tuple(kind for kind, version in zip(kinds, versions, strict=True) if version.get("served"))
    return ServedKinds(hub, served)


def _kind(crd: Manifest, names: Manifest, version: Manifest, converter: WebhookConverter | None) -> Kind:
    spec, schema = crd["spec"], schema_of(version)
    type_ = ResourceType(
        spec["group"], version["name"], names["kind"], names["plural"], spec.get("scope") == "Namespaced"
    )
    subresources: Mapping[str, Manifest] = version.get("subresources") or {}
    scale = _scale_paths(subresources["scale"]) if subresources.get("scale") is not None else None
    has_status, shape = subresources.get("status") is not None, shape_of(schema, type_.kind, type_.version)
    selectable = [one["jsonPath"].removeprefix(".") for one in version.get("selectableFields") or ()]
    strategy = CustomResourceStrategy(schema, shape, has_status=has_status, scale=scale)
    return Kind(
        type_,
        lambda: strategy,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=(("scale",) if scale is not None else ()) + (("status",) if has_status else ()),
        fields={path: tuple(path.split(".")) for path in selectable},
        unknown_field_message=_NOT_SUPPORTED,
        requires_resource_version=True,
        scale=scale,
        custom=CustomVersion(
            shape=shape,
            openapi_schema=schema,
            schema_hash=hashlib.sha256(msgspec.json.encode([version, names])).hexdigest()[:32],
            singular=names.get("singular", ""),
            list_kind=names.get("listKind", ""),
            columns=_columns(version),
            warning=_warning(version, type_),
            converter=converter,
        ),
    )


def _scale_paths(scale: Manifest) -> ScalePaths:
    selector = scale.get("labelSelectorPath") or ""
    return ScalePaths(
        tuple(scale["specReplicasPath"].removeprefix(".").split(".")),
        tuple(scale["statusReplicasPath"].removeprefix(".").split(".")),
        tuple(selector.removeprefix(".").split(".")) if selector else (),
    )


def _columns(version: Manifest) -> tuple[ColumnDefinition, ...] | None:
    declared = version.get("additionalPrinterColumns")
    if not declared:
        return None
    return tuple(
        ColumnDefinition(
            one["name"],
            one["type"],
            one["jsonPath"],
            one.get("format", ""),
            one.get("description", ""),
            one.get("priority", 0),
        )
        for one in declared
    )


def _warning(version: Manifest, type_: ResourceType) -> str:
    if not version.get("deprecated"):
        return ""
    return version.get("deprecationWarning") or f"{type_.api_version} {type_.kind} is deprecated"


def _view(kind: Kind, hub: Kind) -> Kind:
    """Return a kind as a view of the objects of another one: by the webhook, or only the apiVersion is converted.

    Stored objects have the defaults of the storage version. Another version shows those of their fields that it has,
    without defaults of its own: those are for objects that are written through it.
    """

    def to_hub(obj: Manifest) -> None:
        _set_version(obj, hub)
        if not same:
            hub.shape.conform(obj)

    def from_hub(obj: Manifest) -> None:
        _set_version(obj, kind)
        if not same:
            shown().conform(obj)

    @cache
    def shown() -> StructuralShape:
        return shape_of(without_defaults(kind.openapi_schema or {}), kind.type.kind, kind.type.version)

    # A webhook may change fields that both schemas have.
    same = same_json(kind.openapi_schema, hub.openapi_schema) and hub.converter is None
    return replace(kind, conversion=Conversion(hub, kind.shape, to_hub, from_hub, same_fields=same))


def _set_version(obj: Manifest, kind: Kind) -> None:
    """Convert an object in place to the version of a kind."""
    if kind.converter is None:
        obj["apiVersion"] = kind.type.api_version
        return
    (converted,) = kind.converter.converted([obj], kind.type.version)
    if converted is not obj:
        obj.clear()
        obj.update(converted)
