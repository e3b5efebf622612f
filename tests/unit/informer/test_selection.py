import pytest

from kcr.api.core import Node, Pod
from kcr.api.meta import Resource
from kcr.informer import Selection
from kcr.informer.selection import disjoint, selections_in


# IN-38
@pytest.mark.parametrize(
    ("selection", "normal"),
    [
        pytest.param(Selection(Pod, fields="metadata.namespace=x"), Selection(Pod, "x"), id="one-term"),
        pytest.param(
            Selection(Pod, fields="spec.nodeName=n, metadata.namespace==x"),
            Selection(Pod, "x", fields="spec.nodeName=n"),
            id="among-others",
        ),
        pytest.param(
            Selection(Pod, fields="metadata.namespace!=x"), Selection(Pod, fields="metadata.namespace!=x"), id="negated"
        ),
        pytest.param(
            Selection(Pod, "y", fields="metadata.namespace=x"),
            Selection(Pod, "y", fields="metadata.namespace=x"),
            id="contradicted",
        ),
        # IN-37
        pytest.param(Selection(Node, "x"), Selection(Node), id="kind-without-namespaces"),
        pytest.param(
            Selection(Node, excluded=frozenset("x")), Selection(Node), id="kind-without-namespaces-to-exclude"
        ),
    ],
)
def test_selector_that_names_the_namespace_becomes_its_path(selection: Selection[Pod], normal: Selection[Pod]) -> None:
    assert selection.normal() == normal


# IN-36
def test_selectors_go_into_every_request() -> None:
    selection = Selection(Pod, "x", labels="app=web", fields="status.phase=Running")
    assert selection.target({"limit": 1}) == (
        "/api/v1/namespaces/x/pods?limit=1&labelSelector=app%3Dweb&fieldSelector=status.phase%3DRunning"
    )


@pytest.mark.parametrize(
    ("namespaces", "kind", "found"),
    [
        pytest.param("", Pod, (Selection(Pod),), id="all"),
        pytest.param("a, b,a", Pod, (Selection(Pod, "a"), Selection(Pod, "b")), id="two"),
        pytest.param("a,b", Node, (Selection(Node),), id="kind-without-namespaces"),
    ],
)
def test_list_of_namespaces_is_one_selection_each(
    namespaces: str, kind: type[Resource], found: tuple[Selection[Resource], ...]
) -> None:
    assert selections_in(kind, namespaces) == found


@pytest.mark.parametrize(
    ("selection", "text"),
    [
        (Selection(Pod), "pods"),
        (Selection(Pod, "x"), "pods in x"),
        (Selection(Pod, "x", labels="app=web", fields="a=b"), "pods in x (app=web, a=b)"),
    ],
)
def test_messages_say_what_is_selected(selection: Selection[Pod], text: str) -> None:
    assert str(selection) == text


def test_selections_of_several_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="the selections are of several kinds: select each kind by itself"):
        disjoint([Selection(Pod), Selection(Node)])


def test_excluded_namespaces_are_not_requested() -> None:  # IN-37
    all_but = Selection(Pod, fields="spec.nodeName=n", excluded=frozenset({"kube-system", "a"}))
    found = disjoint([Selection(Pod, "b", labels="k=v"), all_but])
    fields = "spec.nodeName=n,metadata.namespace!=a,metadata.namespace!=kube-system,metadata.namespace!=b"
    assert found[1] == Selection(Pod, fields=fields, excluded=frozenset({"a", "b", "kube-system"}))
    # An informer is given the selections that a manager has made disjoint.
    assert disjoint(found) == found
