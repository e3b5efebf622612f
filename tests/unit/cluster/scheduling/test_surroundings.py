"""Affinity between pods and even spreading. Reasons as in interpodaffinity and podtopologyspread."""

from typing import Any

import msgspec
import pytest

from kcr_devcluster.cluster.scheduling.cluster_state import PodInfo
from kcr_devcluster.cluster.scheduling.filters import rejection
from kcr_devcluster.cluster.scheduling.placement import Unschedulable, find_node
from kcr_devcluster.cluster.scheduling.surroundings import survey
from tests.kit.scheduling import node_state, pod_info

REQUIRED, PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
ZONES = {"a0": "a", "a1": "a", "b0": "b"}


def labelled(info: PodInfo, namespace: str = "default", **labels: str) -> PodInfo:
    metadata = msgspec.structs.replace(info.pod.metadata, labels=labels, namespace=namespace)
    return PodInfo.of(msgspec.structs.replace(info.pod, metadata=metadata))


def near(kind: str, app: str, key: str = "zone", **more: Any) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}
    return {"affinity": {kind: {REQUIRED: [term]}}}


def spread(app: str, **more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint | more]}


def reasons(info: PodInfo, placed: dict[str, list[PodInfo]], namespaces: Any = None) -> dict[str, str]:
    """Why the nodes of two zones do not take a pod; those that do are left out."""
    nodes = {name: node_state(name, *placed.get(name, ()), labels={"zone": zone}) for name, zone in ZONES.items()}
    nodes["bare"] = node_state("bare", *placed.get("bare", ()))
    surroundings = survey(info, nodes, namespaces or {})
    found = {name: rejection(info, state, (), surroundings) for name, state in nodes.items()}
    return {name: rejected.reasons[0] for name, rejected in found.items() if rejected is not None}


WEB = labelled(pod_info("web"), app="web")
NOT_NEAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"
UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_ZONE = f"{UNEVEN} (missing required label)"


def test_pod_is_placed_near_those_it_is_to_be_near() -> None:
    found = reasons(pod_info(**near("podAffinity", "web")), {"a0": [WEB]})
    assert found == {"b0": NOT_NEAR, "bare": NOT_NEAR}


def test_first_pod_of_its_kind_may_go_where_it_likes() -> None:
    first = labelled(pod_info(**near("podAffinity", "web")), app="web")
    assert reasons(first, {}) == {"bare": NOT_NEAR}
    assert set(reasons(pod_info(**near("podAffinity", "web")), {})) == {"a0", "a1", "b0", "bare"}


def test_pod_is_placed_far_from_those_it_is_to_be_far_from() -> None:
    found = reasons(pod_info(**near("podAntiAffinity", "web")), {"a0": [WEB]})
    assert found == {"a0": TOO_NEAR, "a1": TOO_NEAR}


def test_pods_that_run_keep_others_off() -> None:
    alone = labelled(pod_info("alone", **near("podAntiAffinity", "web")), app="alone")
    assert reasons(WEB, {"b0": [alone]}) == {"b0": UNWELCOME}
    assert reasons(pod_info("other"), {"b0": [alone]}) == {}


@pytest.mark.parametrize(
    ("more", "is_near"),
    [
        pytest.param({}, False, id="own-namespace"),
        pytest.param({"namespaces": ["other"]}, True, id="named"),
        pytest.param({"namespaceSelector": {}}, True, id="all"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "x"}}}, True, id="by-label"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "y"}}}, False, id="by-another-label"),
    ],
)
def test_terms_are_about_pods_of_some_namespaces(more: dict[str, Any], is_near: bool) -> None:
    info = pod_info(**near("podAntiAffinity", "web", **more))
    placed = {"b0": [labelled(pod_info("x"), "other", app="web")]}
    assert ("b0" in reasons(info, placed, {"other": {"team": "x"}})) is is_near


def test_pods_are_spread_evenly_over_zones() -> None:
    info = labelled(pod_info(**spread("web")), app="web")
    assert reasons(info, {"a0": [WEB]}) == {"a0": UNEVEN, "a1": UNEVEN, "bare": NO_ZONE}
    second = labelled(pod_info("web-1"), app="web")
    assert reasons(info, {"a0": [WEB], "b0": [second]}) == {"bare": NO_ZONE}


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        pytest.param({"maxSkew": 2}, True, id="larger-skew"),
        pytest.param({"minDomains": 3, "maxSkew": 2}, True, id="few-domains-allow-two"),
        pytest.param({"minDomains": 3}, False, id="few-domains"),
        pytest.param({"matchLabelKeys": ["version"]}, True, id="other-version"),
        pytest.param({"whenUnsatisfiable": "ScheduleAnyway"}, True, id="anyway"),
    ],
)
def test_constraint_says_how_evenly(more: dict[str, Any], fits: bool) -> None:
    info = labelled(pod_info(**spread("web", **more)), app="web", version="2")
    assert ("a0" not in reasons(info, {"a1": [labelled(pod_info("x"), app="web", version="1")]})) is fits


def test_nodes_that_the_pod_may_not_use_are_no_domains() -> None:
    info = labelled(pod_info(**spread("web"), nodeSelector={"zone": "a"}), app="web")
    assert "a0" not in reasons(info, {"a0": [WEB]})


def test_preferred_neighbours_decide_between_nodes() -> None:
    nodes = {name: node_state(name, labels={"zone": zone}) for name, zone in ZONES.items()}
    nodes["b0"].add(WEB)
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    for kind, best in (("podAffinity", "b0"), ("podAntiAffinity", "a0")):
        affinity = {kind: {PREFERRED: [{"weight": 50, "podAffinityTerm": term}]}}
        assert find_node(pod_info(affinity=affinity), nodes, {}) == best
    nodes["a0"].add(labelled(pod_info("web-1"), app="web"))
    nodes["a1"].add(labelled(pod_info("web-2"), app="web"))
    anyway = labelled(pod_info(**spread("web", whenUnsatisfiable="ScheduleAnyway")), app="web")
    assert find_node(anyway, nodes, {}) == "b0"


def test_pod_on_a_node_without_the_label_is_near_no_node() -> None:
    assert reasons(pod_info(**near("podAntiAffinity", "web")), {"bare": [WEB]}) == {}
    alone = labelled(pod_info("alone", **near("podAntiAffinity", "web")), app="alone")
    assert reasons(WEB, {"bare": [alone]}) == {}
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    preferring = pod_info(affinity={"podAffinity": {PREFERRED: [{"weight": 50, "podAffinityTerm": term}]}})
    nodes = {"bare": node_state("bare", WEB), "b0": node_state("b0", labels={"zone": "b"})}
    assert find_node(preferring, nodes, {}) == "b0"


def test_less_important_neighbour_makes_room() -> None:
    nodes = {"b0": node_state("b0", WEB, pod_info("bystander"), labels={"zone": "b"})}
    found = find_node(pod_info("alone", priority=5, **near("podAntiAffinity", "web")), nodes, {})
    assert isinstance(found, Unschedulable)
    assert found.message == f"0/1 nodes are available: 1 {TOO_NEAR}."
    assert found.preemption is not None
    assert [victim.key.name for victim in found.preemption.victims] == ["web"]
