import pytest

from kcr_devcluster.codegen.model import class_name, encoded, field_name, field_names


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        pytest.param("replicas", "replicas", id="word"),
        pytest.param("podIP", "pod_ip", id="acronym"),
        pytest.param("clusterIPs", "cluster_ips", id="plural-of-an-acronym"),
        pytest.param("setHostnameAsFQDN", "set_hostname_as_fqdn", id="acronym-at-the-end"),
        pytest.param("nonResourceURLs", "non_resource_urls", id="several-words"),
        pytest.param("openAPIV3Schema", "open_api_v3_schema", id="version"),
        pytest.param("x-kubernetes-map-type", "x_kubernetes_map_type", id="dashes"),
        pytest.param("$ref", "ref", id="sign"),
        pytest.param("from", "from_", id="keyword"),
        pytest.param("str", "str_", id="name-in-annotations"),
        pytest.param("2nd", "_2nd", id="digit"),
        pytest.param("…", "field", id="no-letter"),
    ],
)
def test_field_is_named_as_in_python(wire: str, name: str) -> None:
    assert field_name(wire) == name


def test_field_of_a_kind_hides_none_of_its_members() -> None:
    assert field_name("key") == "key"
    assert field_name("key", of_kind=True) == "key_"


def test_no_two_fields_have_one_name() -> None:
    assert field_names(["fooBar", "foo-bar", "foo_bar"], of_kind=False) == {
        "fooBar": "foo_bar", "foo-bar": "foo_bar_", "foo_bar": "foo_bar__",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "wire"), [("pod_ip", "podIp"), ("from_", "from"), ("replicas", "replicas")])
def test_names_are_encoded_as_msgspec_does(name: str, wire: str) -> None:
    assert encoded(name) == wire


@pytest.mark.parametrize(
    ("words", "name"),
    [
        pytest.param(("Website", "spec"), "WebsiteSpec", id="words"),
        pytest.param(("Website", "v1beta1"), "WebsiteV1beta1", id="version"),
        pytest.param(("Website", "x-y.z"), "WebsiteXYZ", id="signs"),
        pytest.param(("Mapping",), "MappingType", id="what-modules-import"),
    ],
)
def test_class_is_named_by_words(words: tuple[str, ...], name: str) -> None:
    assert class_name(*words) == name
