import sys

import pytest

from kcr.errors import ConfigError
from kcr_devcluster.apiserver.http.openapi.prose import installed_prose
from kcr_devcluster.builtin_types import builtin_kind, class_names, classes, published_prose, types_of
from kcr_devcluster.codegen.model import flat
from kcr_devcluster.codegen.render import module_text
from tests.kit.generated import imported


def text_of(*names: str) -> str:
    kinds = [builtin_kind(*name.rsplit("/", 1)) for name in names]
    types = types_of(kinds)
    return module_text("Types.", classes(types, kinds, class_names(types), lambda name, field: ""), "this test")


@pytest.mark.parametrize(
    ("name", "plural", "namespaced"),
    [
        pytest.param("v1/Pod", "pods", True, id="core"),
        pytest.param("v1/Node", "nodes", False, id="cluster"),
        pytest.param("policy/v1/Eviction", "evictions", True, id="guessed"),
        pytest.param("flowcontrol.apiserver.k8s.io/v1/FlowSchema", "flowschemas", False, id="guessed-cluster"),
    ],
)
def test_kind_is_known_by_its_name(name: str, plural: str, namespaced: bool) -> None:
    found = builtin_kind(*name.rsplit("/", 1))
    assert (found.plural, found.namespaced) == (plural, namespaced)


@pytest.mark.parametrize(
    ("api_version", "kind", "line"),
    [
        pytest.param(
            "v1", "Deployment", "v1/Deployment is not a kind .*: there is apps/v1/Deployment", id="other-group"
        ),
        pytest.param("v1", "Deploiment", "v1/Deploiment is not a kind .*: name apiVersion/Kind", id="misspelt"),
    ],
)
def test_unknown_kind_is_named(api_version: str, kind: str, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        builtin_kind(api_version, kind)


def test_classes_are_named_as_upstream_and_fields_as_in_python() -> None:
    kinds = [builtin_kind("apps/v1", "Deployment")]
    types = types_of(kinds)
    found = {one.name: one for one in classes(types, kinds, class_names(types), lambda name, field: "")}
    fields = {field.name: field for field in found["PodSpec"].fields}
    assert {"Deployment", "DeploymentSpec", "PodTemplateSpec", "Container"} <= found.keys()
    assert (fields["host_pid"].wire, flat(fields["host_pid"].type)) == ("hostPID", "bool | None")
    assert (flat(fields["containers"].type), fields["containers"].default) == ("tuple[Container, ...]", None)
    assert flat(fields["overhead"].type) == "Mapping[str, Quantity]"


def test_type_that_holds_itself_is_quoted_and_works() -> None:
    with imported(text_of("apiextensions.k8s.io/v1/CustomResourceDefinition")) as module:
        schema = module.JSONSchemaProps(type="object", properties={"a": module.JSONSchemaProps(type="string")})
    assert schema.properties["a"].type == "string"


def test_types_of_one_name_get_that_of_their_group() -> None:
    assert class_names(["core.v1.Event", "events.v1.Event"]) == {
        "core.v1.Event": "Event", "events.v1.Event": "EventsV1Event",
    }  # fmt: skip


def test_prose_is_that_of_the_published_schema() -> None:
    assert published_prose("core.v1.Pod", "").startswith("Pod is a collection of containers")
    assert "node" in published_prose("core.v1.PodSpec", "nodeName")


def test_without_the_extra_docstrings_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes_validate", None)
    installed_prose.cache_clear()
    found = published_prose("core.v1.Pod", ""), published_prose("core.v1.Pod", "spec")
    installed_prose.cache_clear()
    assert found == ("Pod of core/v1.", "")
