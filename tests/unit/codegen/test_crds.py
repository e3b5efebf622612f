"""From classes to CustomResourceDefinitions and back."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, Raw, UnsetType

import kcr
from kcr.api import codec
from kcr.errors import ConfigError
from kcr_devcluster.apiserver.kinds.definitions.schema_rules import schema_errors
from kcr_devcluster.codegen.crds import crd_classes
from kcr_devcluster.codegen.model import flat
from kcr_devcluster.codegen.render import module_text
from tests.kit.drawn_objects import structural_value
from tests.kit.generated import imported, kinds_of

ONCE = "!oldSelf.hasValue() || self == oldSelf.value()"
LONG = (
    "A sentence that is so long that it has to be written in several lines of a docstring, each of them indented. " * 2
)


class Port(kcr.Object):
    """A port with \\d in its docstring.

    Attributes:
        number: Of the port; "quoted".
    """

    number: Annotated[int, Meta(ge=1, lt=65536)]
    name: str = ""


class Strategy(kcr.Object, validations=(kcr.Validation("self.type != 'x'", "not x", reason="FieldValueForbidden"),)):
    type: Literal["Roll", "Replace"] = "Roll"
    surge: kcr.IntOrString = "25%"


class WebsiteSpec(kcr.Object):
    __doc__ = f"{LONG.strip()}\n\nNot this.\n\nAttributes:\n    image: {LONG.strip()}\n"

    image: Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^\w+$", title="Image")]
    replicas: Annotated[int, Meta(ge=0, multiple_of=1)] = 1
    share: Annotated[float, Meta(gt=0, le=1)] | None = None
    level: Literal[1, 2] = 2
    ports: Annotated[tuple[Port, ...], Meta(max_length=3), kcr.ListType("map", keys=("name",))] = ()
    hosts: Annotated[tuple[Annotated[str, Meta(description=LONG.strip(), max_length=9)], ...], kcr.ListType("set")] = ()
    matrix: tuple[tuple[int, ...], ...] = ((1, 2), (3,))
    labels: Mapping[str, str] = {"a": "b"}
    by_zone: Mapping[str, Port] = {}
    limits: Annotated[Mapping[str, kcr.Quantity], Meta(max_length=2)] = {}
    strategy: Strategy = Strategy()
    port: Port = Port(number=80, name="http")
    template: Annotated[Raw, Meta(extra_json_schema={"type": "object"})] | UnsetType = UNSET
    anything: Raw = Raw(b'{"a":1}')
    several: tuple[Raw, ...] = ()
    since: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    key: Annotated[bytes, Meta(max_length=6)] | None = None
    nullable: int | None
    fixed: Annotated[str, kcr.Validation(ONCE, optional_old_self=True)] = "x"
    odd: Annotated[str, Meta(extra_json_schema={"format": "hostname", "example": {"a": ["b"]}})] | None = None
    pod_ip: str = msgspec.field(default="None", name="podIP")
    from_: bool = False


# As the kinds of the Gateway API have them.
PENDING = kcr.Condition(
    type="Ready",
    status="Unknown",
    reason="Pending",
    message="wait",
    last_transition_time=datetime(1970, 1, 1, tzinfo=UTC),
)


class WebsiteStatus(kcr.Object):
    ready: int | None = None
    conditions: tuple[kcr.Condition, ...] = (PENDING,)


class Website(
    kcr.Resource, api_version="example.dev/v1", plural="websites", short_names=("web",), singular="site",
    categories=("all",), selectable_fields=(".spec.image",), storage=True, namespaced=False,
    columns=(kcr.PrinterColumn("Ready", ".status.ready", priority=1, description="How many."),),
    scale=kcr.ScaleSubresource(status_path=".status.ready"), validations=(kcr.Validation("self.spec.image != ''"),),
):  # fmt: skip
    """A website."""

    spec: WebsiteSpec
    status: WebsiteStatus = WebsiteStatus()


class OldWebsite(
    kcr.Resource, kind="Website", api_version="example.dev/v1alpha1", plural="websites", namespaced=False,
    served=False, deprecation_warning="",
):  # fmt: skip
    spec: WebsiteSpec


CRD = kcr.crd_manifest(Website, OldWebsite)
TEXT = module_text("Types.", crd_classes(CRD, "all"), "this test")


def test_class_definition_class_is_a_fixpoint() -> None:
    with imported(TEXT) as module:
        again = kcr.crd_manifest(*kinds_of(module))
    assert again == CRD
    assert module_text("Types.", crd_classes(again, "all"), "this test") == TEXT


def test_definition_keeps_to_the_rules_of_the_server() -> None:
    for version in CRD["spec"]["versions"]:
        assert schema_errors(version["schema"]["openAPIV3Schema"], version["name"], has_status=True) == []


def test_generated_class_keeps_what_the_schema_has_a_place_for() -> None:
    (schema,) = [one["schema"]["openAPIV3Schema"] for one in CRD["spec"]["versions"] if one["storage"]]
    plain = {**schema, "properties": {name: one for name, one in schema["properties"].items() if name != "metadata"}}
    with imported(TEXT) as module:
        for seed in range(50):
            drawn = {"status": {}, **structural_value(plain, Random(seed))}
            drawn |= {"apiVersion": "example.dev/v1", "kind": "Website", "metadata": {"name": "a"}}
            kept = msgspec.json.decode(codec.encode(codec.decode(module.Website, msgspec.json.encode(drawn))))
            # A default of the class is written where a field was absent; all that was there is.
            assert msgspec.json.decode(codec.encode(codec.decode(module.Website, msgspec.json.encode(kept)))) == kept
            assert lost(drawn, kept) == []


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """Return the places at which a value has something that another does not have."""
    if isinstance(before, dict):
        here = [f"{path}.{name}" for name in before if name not in after]
        return here + [one for name in before.keys() & after.keys() for one in lost(before[name], after[name], name)]
    if isinstance(before, list):
        return [one for old, new in zip(before, after, strict=True) for one in lost(old, new, f"{path}[]")]
    return [] if before == after else [path]


@pytest.mark.parametrize(
    ("schema", "annotation", "default"),
    [
        pytest.param({"type": "string"}, "str | None", "None", id="text"),
        pytest.param({"type": "string", "default": ""}, "str", '""', id="empty-default"),
        pytest.param({"type": "string", "format": "date-time"}, "datetime | None", "None", id="time"),
        pytest.param({"type": "integer", "format": "int64"}, "int | None", "None", id="integer"),
        pytest.param(
            {"type": "integer", "minimum": 0.5},
            'Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0.5})] | None', "None", id="limit-of-no-integer",
        ),
        pytest.param(
            {"type": "string", "pattern": "\\p{L}"},
            'Annotated[str, msgspec.Meta(extra_json_schema={"pattern": "\\\\p{L}"})] | None', "None",
            id="pattern-that-python-does-not-have",
        ),
        pytest.param(
            {"type": "string", "nullable": True},
            'Annotated[str, msgspec.Meta(extra_json_schema={"nullable": True})] | None', "None", id="nullable",
        ),
        pytest.param({"type": "array", "items": {"type": "string"}}, "tuple[str, ...]", "()", id="list"),
        pytest.param({"type": "object", "additionalProperties": True}, "Mapping[str, msgspec.Raw]", "{}", id="any-map"),
        pytest.param({"x-kubernetes-int-or-string": True}, "IntOrString | None", "None", id="int-or-string"),
        pytest.param(
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}},
            'Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})] | msgspec.UnsetType',
            "msgspec.UNSET", id="unknown-fields",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-embedded-resource": True},
            'Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"x-kubernetes-embedded-resource": True, '
            '"type": "object"})] | msgspec.UnsetType',
            "msgspec.UNSET", id="embedded-resource",
        ),
        pytest.param(
            {
                "type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic",
                "x-kubernetes-preserve-unknown-fields": True,
            },
            'Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"items": {"type": "object"}, "type": "array"}), '
            'ListType("atomic")] | msgspec.UnsetType',
            "msgspec.UNSET", id="list-of-unknown-items",
        ),
        pytest.param({"type": "object"}, "ThingField | None", "None", id="no-fields"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}, "default": {}},
            "ThingField", "ThingField()", id="default-of-an-object",
        ),
    ],
)  # fmt: skip
def test_schema_becomes_a_field(schema: dict[str, Any], annotation: str, default: str) -> None:
    manifest = definition({"type": "object", "properties": {"field": schema}})
    (field,) = next(one for one in crd_classes(manifest) if one.name == "Thing").fields
    assert (flat(field.type), flat(field.default or "")) == (annotation, default)
    with imported(module_text("Types.", crd_classes(manifest), "this test")) as module:
        codec.decode(module.Thing, b"{}")
        (version,) = kcr.crd_manifest(module.Thing)["spec"]["versions"]
    assert schema_errors(version["schema"]["openAPIV3Schema"], "v1", has_status=False) == []


def definition(schema: Mapping[str, Any] | None, *names: str) -> dict[str, Any]:
    versions = [{"name": name, "storage": place == 0, "schema": {"openAPIV3Schema": schema}}
                for place, name in enumerate(names or ("v1",))]  # fmt: skip
    return {"spec": {"group": "example.dev", "names": {"kind": "Thing", "plural": "things"}, "versions": versions}}


def test_opaque_fields_of_generated_classes_do_not_pin_the_page() -> None:
    # ST-7: an uncopied Raw keeps its whole input, such as a list.
    text = module_text("Websites.", crd_classes(kcr.crd_manifest(Website)), "kcr types generate")
    with imported(text) as module:
        (kind,) = kinds_of(module)
        site = Website(spec=WebsiteSpec(image="app", nullable=1, several=(Raw(b'{"b":2}'),)))
        body = codec.encode(site)
        page = b'%s,"padding":"%s"}' % (body[:-1], b"x" * 100_000)
        before = sys.getrefcount(page)
        found: Any = codec.decode(kind, page)
        # The collector does not see what a Raw refers to.
        assert sys.getrefcount(page) == before
        assert [bytes(raw) for raw in (found.spec.anything, *found.spec.several)] == [b'{"a":1}', b'{"b":2}']


def test_equal_schemas_of_equal_fields_are_one_class() -> None:
    inner = {"type": "object", "properties": {"selector": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    other = {"type": "object", "properties": {"selector": {"type": "object", "properties": {"b": {"type": "string"}}}}}
    schema = {"type": "object", "properties": {"left": inner, "right": {**inner, "nullable": True}, "other": other}}
    names = {one.name for one in crd_classes(definition(schema))}
    assert names == {"Thing", "ThingLeft", "ThingRight", "ThingSelector", "ThingOther", "ThingOtherSelector"}


@pytest.mark.parametrize(
    ("subresources", "default"), [({"status": {}}, "ThingStatus()"), ({}, "None")], ids=["apart", "plain"]
)
def test_status_is_always_there_where_it_is_written_apart(subresources: dict[str, Any], default: str) -> None:
    manifest = definition({"type": "object", "properties": {"status": {"type": "object"}}})
    manifest["spec"]["versions"][0]["subresources"] = subresources
    (field,) = next(one for one in crd_classes(manifest) if one.name == "Thing").fields
    assert field.default == default


def test_versions_are_taken_by_name() -> None:
    manifest = definition({"type": "object", "properties": {}}, "v1", "v1beta1")
    assert [one.name for one in crd_classes(manifest)] == ["Thing"]
    assert [one.name for one in crd_classes(manifest, "all")] == ["Thing", "ThingV1beta1"]
    (beta,) = crd_classes(manifest, "v1beta1")
    assert (beta.name, flat(beta.keywords[0])) == ("Thing", 'api_version="example.dev/v1beta1"')


@pytest.mark.parametrize(
    ("manifest", "version", "line"),
    [
        pytest.param(
            {"spec": {"group": 1}}, "", "this is not a CustomResourceDefinition: Expected `str`", id="malformed"
        ),
        pytest.param(definition({"type": "object"}), "v2", "things.example.dev has no version v2: it", id="version"),
        pytest.param(definition(None), "", "things.example.dev v1: its schema does not say", id="no-schema"),
        pytest.param(
            definition({"type": "object", "x-kubernetes-preserve-unknown-fields": True}), "", "kcr.unstructured",
            id="opaque",
        ),
    ],
)  # fmt: skip
def test_what_has_no_class_is_named(manifest: dict[str, Any], version: str, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        crd_classes(manifest, version)
