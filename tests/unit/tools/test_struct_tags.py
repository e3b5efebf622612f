import hashlib
import re
from functools import cache
from typing import Any

import msgspec
import pytest

from kcr_devcluster.apiserver.schema.builtin import type_shape
from tools.schema import NEXT, TABLE, VERSION
from tools.struct_tags import TAGS


@cache
def tags() -> Any:
    return msgspec.json.decode(TAGS.read_bytes())


@cache
def schema() -> Any:
    return msgspec.json.decode(TABLE.read_bytes())


# Fields that came after the sources of which the numbers are.
WITHOUT_NUMBER = {
    "core.v1.NodeSystemInfo": {"runningInUserNamespace"},
    "resource.v1.DeviceCounterConsumption": {"compatibilityGroups"},
    "resource.v1.DeviceDerivedAttribute": {"name", "expression"},
    "resource.v1.DeviceSubRequest": {"derivedAttributes"},
    "resource.v1.ExactDeviceRequest": {"derivedAttributes"},
}


def numbers(name: str, part: str = "types") -> dict[str, str]:
    entries = (entry.split(":") for entry in tags()[part][name].split())
    return {field: re.split("[?!=]", tag)[0] for field, tag in entries if field}


def test_table_is_of_the_version_of_the_schema() -> None:
    assert tags()["source"] == {"kubernetes": VERSION, "later": NEXT}


def test_table_was_not_changed_by_hand() -> None:
    digest = f'"{tags()["sha256"]}"'
    assert hashlib.sha256(TAGS.read_text().partition(digest)[2].encode()).hexdigest() == tags()["sha256"]


def test_numbered_fields_are_those_of_the_schema() -> None:
    # What the server keeps of an object, a client sends back in this form; type metadata is in the envelope.
    envelope = {"apiVersion", "kind"}
    assert not [
        name for name in tags()["types"] if envelope | numbers(name).keys() != envelope | schema()["types"][name].keys()
    ]
    assert not [name for name in tags()["types"] if not numbers(name).keys() <= schema()["types"][name].keys()]
    later = {name: {field for field, one in facts.items() if one} for name, facts in schema()["later"]["types"].items()}
    numbered = {name: envelope | numbers(name, "later").keys() for name in tags()["later"]}
    wanted = {name: envelope | later[name] - WITHOUT_NUMBER.get(name, set()) for name in later}
    assert numbered == {name: fields for name, fields in wanted.items() if fields != envelope}


def test_numbers_are_unique_in_a_type() -> None:
    for name in tags()["types"]:
        found = list(numbers(name).values())
        assert len(set(found)) == len(found), name
        # No field has the number of an embedded message.
        assert not [one for one in found for other in found if other.startswith(f"{one}.")], name
        assert set(type_shape(name, "1.36").numbers.values()) - {""} == numbers(name).keys(), name
    for name in tags()["later"]:
        numbered = {**(numbers(name) if name in tags()["types"] else {}), **numbers(name, "later")}
        assert set(type_shape(name, "1.37").numbers.values()) - {""} <= numbered.keys(), name
        assert len(set(numbered.values())) == len(numbered), name


@pytest.mark.parametrize(
    ("name", "field", "tag"),
    [
        pytest.param("batch.v1.JobSpec", "parallelism", "1", id="pointer"),
        pytest.param("apps.v1.DeploymentSpec", "minReadySeconds", "5?", id="value"),
        pytest.param("core.v1.PodCondition", "lastProbeTime", "3!", id="time"),
        pytest.param("core.v1.Volume", "configMap", "2.19", id="embedded"),
        pytest.param("core.v1.Volume", "", "2=VolumeSource", id="embedded-struct"),
        pytest.param("apiextensions.v1.JSONSchemaProps", "$ref", "3", id="definition"),
        pytest.param("meta.v1.ObjectMeta", "creationTimestamp", "8", id="omitted-time"),
        pytest.param("core.v1.ServiceSpec", "type", "4?=v1.ServiceType", id="type-with-a-name"),
        pytest.param("core.v1.ServiceSpec", "ipFamilies", "19=[]v1.IPFamily", id="list-of-a-type-with-a-name"),
        pytest.param("core.v1.ResourceRequirements", "limits", "1=v1.ResourceList", id="map-with-a-name"),
        pytest.param("meta.v1.OwnerReference", "uid", "4=types.UID", id="type-of-another-package"),
    ],
)
def test_tags_are_those_of_the_go_struct(name: str, field: str, tag: str) -> None:
    assert dict(entry.split(":") for entry in tags()["types"][name].split())[field] == tag


@pytest.mark.parametrize("name", ["apiregistration.v1.APIService", "meta.v1.WatchEvent"])
def test_types_of_other_repositories_have_no_numbers(name: str) -> None:
    assert name in schema()["types"]
    assert not type_shape(name).numbers
