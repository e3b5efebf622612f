import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kcr.api.core import PodSpec
from kcr.api.meta import OwnerReference
from kcr.api.unstructured import unstructured
from kcr.informer.index import Index, built_in
from tests.kit.informer_pods import Pod, pod

Widget = unstructured("example.dev/v1", "Widget", plural="widgets")


def owned(by: str) -> Pod:
    found = pod("a")
    owner = OwnerReference(kind="Job", name=by, uid=by, controller=True)
    return replace(found, metadata=replace(found.metadata, owner_references=(owner,)))


# IN-22, IN-23
@pytest.mark.parametrize(
    ("name", "obj", "values"),
    [
        pytest.param("namespace", pod("a"), ["d"], id="namespace"),
        pytest.param("owner", owned("j"), ["j"], id="owner"),
        pytest.param("owner", pod("a"), ["d/"], id="orphans-of-a-namespace"),
        pytest.param("label:app", pod("a", labels={"app": "web"}), ["web"], id="label"),
        pytest.param("label:app", pod("a"), [], id="no-label"),
        pytest.param("field:spec.nodeName", replace(pod("a"), spec=PodSpec(node_name="n")), ["n"], id="field"),
        pytest.param("field:metadata.labels.app", pod("a", labels={"app": "web"}), ["web"], id="field-of-a-map"),
        pytest.param("field:spec.nodename.x", pod("a"), [], id="unknown-field"),
        pytest.param("field:spec", pod("a"), [], id="field-that-is-no-text"),
        pytest.param(
            "field:spec.size", Widget.of({"metadata": {"name": "w"}, "spec": {"size": 3}}), ["3"], id="unstructured"
        ),
        pytest.param(
            "field:spec.on", Widget.of({"metadata": {"name": "w"}, "spec": {"on": True}}), ["true"], id="boolean"
        ),
    ],
)
def test_built_in_indexes_find_objects_by_what_they_say(name: str, obj: Pod, values: list[str]) -> None:
    assert list(built_in(name)(obj)) == values


@pytest.mark.parametrize("name", ["unknown", "label:", "field:", "owner:x", "namespace:x"])
def test_unknown_index_is_a_key_error(name: str) -> None:
    with pytest.raises(KeyError, match="there is no index"):
        built_in(name)


# IN-21
def test_value_without_objects_is_not_kept() -> None:
    index = Index[Pod]("app", built_in("label:app"))
    old, new = pod("a", 1, labels={"app": "x"}), pod("a", 2, labels={"app": "y"})
    index.change(("d", "a"), None, old)
    index.change(("d", "a"), old, new)
    assert index.get("x") == ()
    assert index.get("y") == (new,)
    index.change(("d", "a"), new, None)
    assert not index._found


# IN-20
def test_object_that_cannot_be_indexed_is_logged_and_left_out() -> None:
    index = Index[Pod]("broken", lambda found: [found.metadata.labels["app"]])
    with capture_logs() as lines:
        index.change(("d", "a"), None, pod("a"))
        index.change(("d", "b"), None, pod("b", labels={"app": "web"}))
    assert [(line["event"], line["key"]) for line in lines] == [("index failed", "d/a")]
    assert [found.metadata.name for found in index.get("web")] == ["b"]
