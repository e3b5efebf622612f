# Made by `python -m tools.api_types`: do not edit.
"""Types of apiextensions/v1, whole."""

from collections.abc import Mapping
from datetime import datetime
from typing import Self

import msgspec

from kcr.api.meta import FullResource, Object, copy_raw


class ServiceReference(Object):
    name: str
    namespace: str
    path: str | None = None
    port: int | None = None


class WebhookClientConfig(Object):
    ca_bundle: bytes | None = None
    service: ServiceReference | None = None
    url: str | None = None


class WebhookConversion(Object):
    client_config: WebhookClientConfig | None = None
    conversion_review_versions: tuple[str, ...]


class CustomResourceConversion(Object):
    strategy: str
    webhook: WebhookConversion | None = None


class CustomResourceDefinitionNames(Object):
    categories: tuple[str, ...] = ()
    kind: str
    list_kind: str | None = None
    plural: str
    short_names: tuple[str, ...] = ()
    singular: str | None = None


class CustomResourceColumnDefinition(Object):
    description: str | None = None
    format: str | None = None
    json_path: str
    name: str
    priority: int | None = None
    type: str


class CustomResourceSubresourceScale(Object):
    label_selector_path: str | None = None
    spec_replicas_path: str
    status_replicas_path: str


class CustomResourceSubresources(Object):
    scale: CustomResourceSubresourceScale | None = None
    status: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class ExternalDocumentation(Object):
    description: str | None = None
    url: str | None = None


class ValidationRule(Object):
    field_path: str | None = None
    message: str | None = None
    message_expression: str | None = None
    optional_old_self: bool | None = None
    reason: str | None = None
    rule: str


class JSONSchemaProps(Object):
    ref: str | None = msgspec.field(default=None, name="$ref")
    schema: str | None = msgspec.field(default=None, name="$schema")
    additional_items: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    additional_properties: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    all_of: "tuple[JSONSchemaProps, ...]" = ()
    any_of: "tuple[JSONSchemaProps, ...]" = ()
    default: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    definitions: "Mapping[str, JSONSchemaProps]" = {}
    dependencies: Mapping[str, msgspec.Raw] = {}
    description: str | None = None
    enum: tuple[msgspec.Raw, ...] = ()
    example: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    exclusive_maximum: bool | None = None
    exclusive_minimum: bool | None = None
    external_docs: ExternalDocumentation | None = None
    format: str | None = None
    id: str | None = None
    items: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    max_items: int | None = None
    max_length: int | None = None
    max_properties: int | None = None
    maximum: float | None = None
    min_items: int | None = None
    min_length: int | None = None
    min_properties: int | None = None
    minimum: float | None = None
    multiple_of: float | None = None
    not_: "JSONSchemaProps | None" = None
    nullable: bool | None = None
    one_of: "tuple[JSONSchemaProps, ...]" = ()
    pattern: str | None = None
    pattern_properties: "Mapping[str, JSONSchemaProps]" = {}
    properties: "Mapping[str, JSONSchemaProps]" = {}
    required: tuple[str, ...] = ()
    title: str | None = None
    type: str | None = None
    unique_items: bool | None = None
    x_kubernetes_embedded_resource: bool | None = msgspec.field(default=None, name="x-kubernetes-embedded-resource")
    x_kubernetes_int_or_string: bool | None = msgspec.field(default=None, name="x-kubernetes-int-or-string")
    x_kubernetes_list_map_keys: tuple[str, ...] = msgspec.field(default=(), name="x-kubernetes-list-map-keys")
    x_kubernetes_list_type: str | None = msgspec.field(default=None, name="x-kubernetes-list-type")
    x_kubernetes_map_type: str | None = msgspec.field(default=None, name="x-kubernetes-map-type")
    x_kubernetes_preserve_unknown_fields: bool | None = msgspec.field(
        default=None,
        name="x-kubernetes-preserve-unknown-fields",
    )
    x_kubernetes_validations: tuple[ValidationRule, ...] = msgspec.field(default=(), name="x-kubernetes-validations")


class CustomResourceValidation(Object):
    open_api_v3_schema: JSONSchemaProps | None = msgspec.field(default=None, name="openAPIV3Schema")


class SelectableField(Object):
    json_path: str


class CustomResourceDefinitionVersion(Object):
    additional_printer_columns: tuple[CustomResourceColumnDefinition, ...] = ()
    deprecated: bool | None = None
    deprecation_warning: str | None = None
    name: str
    schema: CustomResourceValidation | None = None
    selectable_fields: tuple[SelectableField, ...] = ()
    served: bool
    storage: bool
    subresources: CustomResourceSubresources | None = None


class CustomResourceDefinitionSpec(Object):
    conversion: CustomResourceConversion | None = None
    group: str
    names: CustomResourceDefinitionNames
    preserve_unknown_fields: bool | None = None
    scope: str
    versions: tuple[CustomResourceDefinitionVersion, ...]


class CustomResourceDefinitionCondition(Object):
    last_transition_time: datetime | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None
    status: str
    type: str


class CustomResourceDefinitionStatus(Object):
    accepted_names: CustomResourceDefinitionNames | None = None
    conditions: tuple[CustomResourceDefinitionCondition, ...] = ()
    observed_generation: int | None = None
    stored_versions: tuple[str, ...] = ()


class CustomResourceDefinition(
    FullResource,
    api_version="apiextensions.k8s.io/v1",
    plural="customresourcedefinitions",
    namespaced=False,
):
    spec: CustomResourceDefinitionSpec
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()

    def detached(self) -> Self:
        """Return the object free of the bytes it was decoded from."""
        return copy_raw(self)
