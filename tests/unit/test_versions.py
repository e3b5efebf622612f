import pytest

from kcr_devcluster.apiserver.schema.builtin import (
    ALL,
    is_served,
    kind_shape,
    kubernetes_version,
    type_facts,
    type_of_kind,
    type_shape,
)
from kcr_devcluster.versions import DEFAULT, DISABLED, TRAITS, VERSIONS


def test_each_version_has_traits_and_a_release() -> None:
    assert tuple(TRAITS) == VERSIONS
    assert DEFAULT in VERSIONS
    assert [kubernetes_version(one) for one in VERSIONS] == [f"{one}.0" for one in VERSIONS]


@pytest.mark.parametrize(
    ("name", "field", "found"),
    [
        pytest.param("batch.v1.JobSpec", "scheduling", (False, True, True), id="new"),
        pytest.param("batch.v1.JobSpec", "suspend", (True, True, True), id="same"),
        pytest.param("core.v1.NodeAllocatableResourceClaimStatus", "resources", (True, False, True), id="gone"),
        pytest.param("core.v1.PodSpec", "evictionResponders", (False, True, False), id="disabled"),
    ],
)
def test_fields_are_those_of_a_version(name: str, field: str, found: tuple[bool, ...]) -> None:
    assert tuple(field in type_facts(name, version) for version in (*VERSIONS, ALL)) == found
    assert tuple(field in type_shape(name, version).fields for version in (*VERSIONS, ALL)) == found


def test_fields_within_an_object_are_those_of_the_version() -> None:
    pod = {"spec": {"containers": [{"name": "a", "volumeMounts": [{"name": "v", "bindMountOptions": ["noexec"]}]}]}}
    path = "spec.containers[0].volumeMounts[0].bindMountOptions"
    assert [list(kind_shape("v1", "Pod", version).unknown(pod)) for version in VERSIONS] == [[path], []]
    kind_shape("v1", "Pod", "1.36").prune(pod)
    assert pod == {"spec": {"containers": [{"name": "a", "volumeMounts": [{"name": "v"}]}]}}


def test_changed_facts_are_those_of_the_version_and_stored_ones_those_of_the_oldest() -> None:
    facts = [type_facts("core.v1.PodStatus", one)["nodeAllocatableResourceClaimStatuses"] for one in (*VERSIONS, ALL)]
    assert [one.list_type for one in facts] == ["atomic", "map", "atomic"]


@pytest.mark.parametrize(
    ("kind", "served"),
    [
        pytest.param("v1 Pod", [True, True], id="same"),
        pytest.param("storagemigration.k8s.io/v1 StorageVersionMigration", [False, True], id="new"),
        pytest.param("scheduling.k8s.io/v1alpha2 Workload", [True, False], id="gone"),
        pytest.param("example.dev/v1 Website", [True, True], id="not-of-kubernetes"),
    ],
)
def test_kinds_are_those_of_a_version(kind: str, served: list[bool]) -> None:
    api_version, name = kind.split(" ")
    assert [is_served(api_version, name, version) for version in VERSIONS] == served
    if ".dev" not in kind:
        assert [type_of_kind(api_version, name, version) is not None for version in VERSIONS] == served


def test_disabled_fields_are_new_in_the_newest_version() -> None:
    for name, fields in DISABLED.items():
        new = type_facts(name, VERSIONS[-1]).keys() - type_facts(name, VERSIONS[0]).keys()
        assert {*fields} & new, name
        assert not {*fields} & type_facts(name).keys(), name
