from typing import Annotated, Any

import pytest
from msgspec import Meta

import kcr
from kcr.api.apps import Deployment
from kcr.api.meta import ObjectType
from kcr_devcluster.apiserver.kinds.definitions.schema_rules import schema_errors

AGE = kcr.PrinterColumn("Age", ".metadata.creationTimestamp")


class WebsiteSpec(kcr.Object, validations=(kcr.Validation("self.replicas != 13"),)):
    """What is wanted.

    Attributes:
        image: The image to run.
    """

    image: Annotated[str, Meta(min_length=1)]
    replicas: int = 1


class WebsiteStatus(kcr.Object):
    """What was seen."""

    ready: int | None = None
    selector: str = ""
    conditions: tuple[kcr.Condition, ...] = ()


class Website(
    kcr.Resource, api_version="example.dev/v1", plural="websites", short_names=("web",), categories=("all",),
    columns=(
        kcr.PrinterColumn("Ready", ".status.ready", description="How many.", priority=1),
        kcr.PrinterColumn("Is", '.status.conditions[?(@.type=="Ready")].status'),
        AGE,
    ),
    scale=kcr.ScaleSubresource(status_path=".status.ready", selector_path=".status.selector"),
    selectable_fields=(".spec.image",), storage=True,
):  # fmt: skip
    """A website."""

    spec: WebsiteSpec
    status: WebsiteStatus = WebsiteStatus()


class OldWebsite(
    kcr.Resource, kind="Website", api_version="example.dev/v1beta1", plural="websites", deprecation_warning="use v1"
):
    """A website as it was."""

    image: str


class Plain(kcr.Resource, api_version="example.dev/v1", plural="plains", namespaced=False):
    pass


class Undecided(kcr.Resource, api_version="example.dev/v2", plural="plains", kind="Plain", namespaced=False):
    pass


class Other(kcr.Resource, api_version="example.dev/v2", plural="others"):
    pass


class Sheep(kcr.Resource, api_version="example.dev/v1", plural="sheep", singular="lamb"):
    pass


class Renamed(Plain, api_version="example.dev/v2", plural="plains", kind="Plain", namespaced=False, storage=True):
    pass


class Statused(kcr.Resource, api_version="example.dev/v1", plural="statused"):
    status: WebsiteStatus


def version(*kinds: type[kcr.Resource], place: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = kcr.crd_manifest(*kinds)["spec"]["versions"][place]
    return found


def test_manifest_of_a_class() -> None:
    found = kcr.crd_manifest(Website)
    assert {name: found[name] for name in ("apiVersion", "kind", "metadata")} == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.example.dev"},
    }
    spec = found["spec"]
    assert (spec["group"], spec["scope"]) == ("example.dev", "Namespaced")
    assert spec["names"] == {
        "kind": "Website", "listKind": "WebsiteList", "plural": "websites", "singular": "website",
        "shortNames": ["web"], "categories": ["all"],
    }  # fmt: skip


def test_singular_name_may_be_given() -> None:
    assert kcr.crd_manifest(Sheep)["spec"]["names"]["singular"] == "lamb"
    assert kcr.crd_manifest(Other)["spec"]["names"]["singular"] == "other"


def test_schema_keeps_the_structural_rules() -> None:
    schema = version(Website)["schema"]["openAPIV3Schema"]
    assert schema_errors(schema, "", has_status=True) == []
    assert (schema["description"], schema["required"]) == ("A website.", ["spec"])
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert schema["properties"]["spec"]["properties"]["image"]["description"] == "The image to run."
    assert schema["properties"]["spec"]["x-kubernetes-validations"] == [{"rule": "self.replicas != 13"}]


def test_status_is_a_subresource_and_never_defaulted() -> None:
    found = version(Website)
    assert found["subresources"]["status"] == {}
    assert "default" not in found["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert "subresources" not in version(Plain)


def test_scale_and_selectable_fields_are_paths_of_fields() -> None:
    found = version(Website)
    assert found["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.ready",
        "labelSelectorPath": ".status.selector",
    }
    assert found["selectableFields"] == [{"jsonPath": ".spec.image"}]


def test_columns_have_the_types_of_their_fields() -> None:
    assert version(Website)["additionalPrinterColumns"] == [
        {"name": "Ready", "type": "integer", "jsonPath": ".status.ready", "description": "How many.", "priority": 1},
        {"name": "Is", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def test_several_versions_make_one_definition() -> None:
    names = kcr.crd_manifest(OldWebsite, Website)["spec"]["names"]
    assert names["shortNames"] == ["web"]
    assert [version(OldWebsite, Website, place=place)["name"] for place in (0, 1)] == ["v1", "v1beta1"]
    assert [version(OldWebsite, Website, place=place)["storage"] for place in (0, 1)] == [True, False]
    old = version(OldWebsite, Website, place=1)
    assert (old["deprecated"], old["deprecationWarning"]) == (True, "use v1")


def test_kind_without_namespaces_is_of_the_cluster() -> None:
    assert kcr.crd_manifest(Plain)["spec"]["scope"] == "Cluster"


def made(**options: Any) -> type[kcr.Resource]:
    fields = {"__annotations__": {"spec": WebsiteSpec}}
    found: type[kcr.Resource] = ObjectType(
        "Made", (kcr.Resource,), fields, api_version="example.dev/v1", plural="mades", **options
    )
    return found


@pytest.mark.parametrize(
    ("kinds", "fault"),
    [
        pytest.param((), "name a class", id="none"),
        pytest.param(
            (kcr.Resource,), "Resource: it is not a kind: give the class api_version= and plural=", id="no-kind"
        ),
        pytest.param((Deployment,), "Deployment: apps/v1 is Kubernetes' own", id="built-in"),
        pytest.param((Plain, Other), "Other: its group, kind, plural or scope is not that of Plain", id="two-kinds"),
        pytest.param((Plain, Undecided), "Plain, Undecided: 0 of these versions are stored", id="no-storage"),
        pytest.param((Renamed, Undecided), "have the version v2", id="same-version"),
        pytest.param((Statused,), "Statused.status: a new object has no status", id="required-status"),
        pytest.param(
            (made(columns=(kcr.PrinterColumn("A", ".spec.imge"),)),), "it has no field .spec.imge", id="column"
        ),
        pytest.param((made(selectable_fields=(".spec.no",)),), "Made: it has no field .spec.no", id="selectable"),
        pytest.param((made(scale=kcr.ScaleSubresource()),), "it has no field .status.replicas", id="scale"),
        pytest.param(
            (made(scale=kcr.ScaleSubresource(spec_path=".status.replicas")),), "not begin with .spec.", id="scale-root"
        ),
    ],
)  # fmt: skip
def test_classes_that_are_no_kind_are_refused(kinds: tuple[type[kcr.Resource], ...], fault: str) -> None:
    with pytest.raises(TypeError, match=fault):
        kcr.crd_manifest(*kinds)
