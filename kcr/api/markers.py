"""Declarations of a class for its CustomResourceDefinition, named like kubebuilder's markers.

Keywords of a class carry declarations of a kind or of an object, `Annotated` those of a field. Limits of values are
msgspec's own: `Annotated[int, msgspec.Meta(ge=1)]`.

Source: sigs.k8s.io/controller-tools/pkg/crd/markers.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from kcr.annotations import Name, Text
from kcr.arguments import check_fields, checked

_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

# A number, or a name or percentage as text, such as the port of a probe.
IntOrString = int | str
# Where a field is.
FieldPath = Annotated[str, msgspec.Meta(pattern=r"\A\..", description="a path such as .status.ready")]
# An amount of a resource, such as `500m` or `1Gi`. Servers check its form; decoding does not.
Quantity = Annotated[int | str, msgspec.Meta(extra_json_schema={"pattern": _QUANTITY})]


@checked
class Validation(NamedTuple):
    """A rule in CEL that the API server checks: `kcr.Validation("self.min <= self.max", "min is above max")`.

    On a class (`validations=(…,)`) `self` is the object, in `Annotated` it is the field. `oldSelf` is the value before
    an update: `self == oldSelf` makes a field immutable.

    Attributes:
        rule: An expression that is true for valid values.
        message: The server's message for invalid values; empty for the rule itself.
        message_expression: CEL for the message, where it depends on the value.
        reason: Of the error: `FieldValueInvalid`, `FieldValueForbidden`, `FieldValueRequired` or
            `FieldValueDuplicate`; empty for the first.
        field_path: The field that the error names, such as `.min`; empty for that with the rule.
        optional_old_self: Whether the rule is checked on creation too, with `oldSelf` as an optional.

    Source: apiextensions-apiserver/pkg/apis/apiextensions/v1/types_jsonschema.go, ValidationRule.
    """

    rule: Annotated[str, msgspec.Meta(pattern=r"\S", description="an expression in CEL")]
    message: str = ""
    message_expression: str = ""
    reason: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^(FieldValue(Invalid|Forbidden|Required|Duplicate))?\Z",
            description="FieldValueInvalid, FieldValueForbidden, FieldValueRequired or FieldValueDuplicate",
        ),
    ] = ""
    field_path: str = ""
    optional_old_self: bool | None = None


@checked
class ListType(NamedTuple):
    """How server-side apply merges a list: `Annotated[tuple[Port, ...], kcr.ListType("map", keys=("port",))]`.

    Attributes:
        type: `map` merges items of the same keys, `set` has unique scalars, `atomic` (the default) is replaced whole.
        keys: The fields that identify an item of a `map`, by their names on the wire.
    """

    type: Annotated[str, msgspec.Meta(pattern=r"^(map|set|atomic)\Z", description="'map', 'set' or 'atomic'")]
    keys: tuple[str, ...] = ()


@checked
class PrinterColumn(NamedTuple):
    """A column of `kubectl get`: `kcr.PrinterColumn("Ready", ".status.ready")`.

    Attributes:
        name: The heading.
        json_path: Where the value is, such as `.spec.replicas` or `.metadata.creationTimestamp`.
        type: `integer`, `number`, `string`, `boolean` or `date`; empty for that of the field.
        description: For people.
        priority: Columns above 0 are shown by `-o wide` only.
        format: A hint such as `int32`; empty for none.
    """

    name: Text
    json_path: FieldPath
    type: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^(integer|number|string|boolean|date)?\Z", description="integer, number, string, boolean or date"
        ),
    ] = ""
    description: str = ""
    priority: int = 0
    format: str = ""


@checked
class ScaleSubresource(NamedTuple):
    """Where `kubectl scale` and autoscalers find the number of replicas.

    Attributes:
        spec_path: The replicas wanted.
        status_path: The replicas there are.
        selector_path: The label selector of their pods as text, which a HorizontalPodAutoscaler needs; empty for none.
    """

    spec_path: FieldPath = ".spec.replicas"
    status_path: FieldPath = ".status.replicas"
    selector_path: str = ""


class CrdOptions(NamedTuple):
    """The keywords of a class that are for its CustomResourceDefinition."""

    singular: Name | Literal[""] = ""
    short_names: tuple[Name, ...] = ()
    categories: tuple[Name, ...] = ()
    columns: tuple[PrinterColumn, ...] = ()
    scale: ScaleSubresource | None = None
    selectable_fields: tuple[str, ...] = ()
    validations: tuple[Validation, ...] = ()
    storage: bool | None = None
    served: bool = True
    deprecation_warning: str | None = None

    def extended(self, about: str, options: dict[str, Any]) -> "CrdOptions":
        """Return the options of a class whose base has these, and take its own out of its keywords.

        Rules of the base hold for the class as well; options of a version hold for that version alone.
        """
        own = {name: options.pop(name) for name in self._fields if name in options}
        if own:
            # The usual slip: in `("web")` the parentheses make no tuple.
            check_fields(about, CrdOptions()._replace(**own), own)
        own |= {name: tuple(one) for name, one in own.items() if isinstance(one, list)}
        if "validations" in own:
            own["validations"] = (*self.validations, *own["validations"])
        return self._replace(**{**_OF_A_VERSION, **own})


_OF_A_VERSION: Mapping[str, Any] = {"storage": None, "served": True, "deprecation_warning": None}
