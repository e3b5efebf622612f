"""What definitions lose between versions, and rules that fail where a field is absent."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import pytest

import kcr
from kcr_devcluster.generators.review import Loss, losses, unguarded


class Port(kcr.Object):
    number: int


class NamedPort(kcr.Object):
    number: int
    name: str = ""


class OldSpec(kcr.Object):
    image: str
    ports: tuple[Port, ...] = ()
    by_zone: Mapping[str, Port] = {}
    size: int = 1


class NewSpec(kcr.Object):
    image: str
    ports: tuple[NamedPort, ...] = ()
    by_zone: Mapping[str, NamedPort] = {}
    size: kcr.Quantity = "1"


class Status(kcr.Object):
    ready: int | None = None


class Old(kcr.Resource, kind="Shop", api_version="a.dev/v1beta1", plural="shops"):
    spec: OldSpec


class New(kcr.Resource, kind="Shop", api_version="a.dev/v1", plural="shops", storage=True):
    spec: NewSpec
    status: Status = Status()


class StoredOld(Old, kind="Shop", api_version="a.dev/v1beta1", plural="shops", storage=True):
    pass


class Unserved(Old, kind="Shop", api_version="a.dev/v1alpha1", plural="shops", served=False):
    pass


class Opaque(kcr.Resource, kind="Shop", api_version="a.dev/v2", plural="shops"):
    spec: msgspec.Raw
    status: Status = Status()


class NewAgain(New, kind="Shop", api_version="a.dev/v1", plural="shops"):
    pass


ADDED = ("spec.byZone.*.name", "spec.ports[].name", "spec.size as integer or string", "status")


def found(*versions: type[kcr.Resource]) -> list[Loss]:
    return [one._replace(fields=tuple(sorted(one.fields))) for one in losses(kcr.crd_manifest(*versions))]


def test_update_through_a_version_without_a_field_loses_it() -> None:
    assert found(New, Old) == [
        Loss("v1beta1", "v1", ("spec.size as integer",), is_stored=True),
        Loss("v1", "v1beta1", ADDED, is_stored=False),
    ]


def test_stored_version_without_a_field_loses_each_write() -> None:
    assert found(NewAgain, StoredOld)[0] == Loss("v1", "v1beta1", ADDED, is_stored=True)


@pytest.mark.parametrize(
    "versions",
    [
        pytest.param((New,), id="one-version"),
        pytest.param((New, Unserved), id="version-that-is-not-served"),
    ],
)
def test_versions_that_nothing_is_lost_between_are_not_named(versions: tuple[type[kcr.Resource], ...]) -> None:
    assert found(*versions) == []


def test_unknown_fields_that_are_kept_are_not_lost() -> None:
    assert found(New, Opaque) == [Loss("v2", "v1", ("spec as any value",), is_stored=True)]


def test_conversion_webhook_loses_nothing() -> None:
    manifest = kcr.crd_manifest(New, Old)
    manifest["spec"]["conversion"] = {"strategy": "Webhook"}
    assert list(losses(manifest)) == []


def rule_on(text: str) -> list[str]:
    """Return the selections that are found unguarded in a rule of a spec."""

    class Backup(kcr.Object):
        bucket: str = ""
        zone: str | None = None

    class Spec(kcr.Object, validations=(kcr.Validation(text),)):
        name: str
        bucket: str = ""
        size: int = 0
        zone: str | None = None
        hosts: tuple[str, ...] = ()
        backup: Backup | None = None
        always: Backup = Backup()

    class Ruled(kcr.Resource, api_version="a.dev/v1", plural="ruleds"):
        spec: Spec

    return [one.selection for one in unguarded(kcr.crd_manifest(Ruled))]


@pytest.mark.parametrize(
    ("rule", "selections"),
    [
        pytest.param("self.name != '' && self.bucket != '' && self.size > 0", [], id="required-or-defaulted"),
        pytest.param("self.zone != ''", ["self.zone"], id="none"),
        pytest.param("self.hosts.size() > 0", ["self.hosts"], id="empty-list"),
        pytest.param("!has(self.zone) || self.zone != ''", [], id="guarded"),
        pytest.param("has( self.backup ) ? self.backup.bucket != '' : true", [], id="default-inside-a-guarded-one"),
        pytest.param("!has(self.backup) || self.backup.zone != ''", ["self.backup.zone"], id="only-the-outer-guarded"),
        pytest.param("self.always.bucket != self.always.zone", ["self.always.zone"], id="inside-a-default"),
        pytest.param("self.name != 'self.zone'", [], id="text-that-looks-like-one"),
        pytest.param("self.?zone.orValue('') != ''", [], id="optional-selection"),
        pytest.param("self.zone == oldSelf.zone", ["oldSelf.zone", "self.zone"], id="both-sides-of-an-update"),
        pytest.param("self.hosts.exists(h, h == 'self.x') || has(self.hosts)", [], id="macro"),
    ],
)
def test_rule_on_an_absent_field_is_named(rule: str, selections: list[str]) -> None:
    assert rule_on(rule) == selections


def test_rule_of_a_field_and_of_the_whole_object_have_their_places() -> None:
    class Item(kcr.Object, validations=(kcr.Validation("self.weight > 1"),)):
        weight: int | None = None

    class Placed(
        kcr.Resource, api_version="a.dev/v1", plural="placeds",
        validations=(kcr.Validation("self.metadata.name == self.status.ready"),),
    ):  # fmt: skip
        items: Annotated[tuple[Item, ...], kcr.ListType("atomic")] = ()
        status: Status = Status()

    rows: list[Any] = [(one.version, one.place, one.selection) for one in unguarded(kcr.crd_manifest(Placed))]
    assert rows == [("v1", "", "self.status"), ("v1", "items[]", "self.weight")]
