"""Why a node does not take a pod. Reasons as in kubernetes/pkg/scheduler/framework/plugins."""

from typing import Any

import pytest

from kcr_devcluster.cluster.scheduling.filters import Rejection, rejection
from tests.kit.scheduling import node_state, pod_info

CORDON = {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
DEDICATED = {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}
EXISTS = [{"operator": "Exists"}]
TAINTED = "node(s) had untolerated taint(s)"


@pytest.mark.parametrize(
    ("spec", "node", "reason"),
    [
        pytest.param({}, {}, "", id="plain"),
        pytest.param({}, CORDON, "node(s) were unschedulable", id="cordoned"),
        pytest.param({"tolerations": EXISTS}, CORDON, "", id="tolerates-all"),
        pytest.param({}, DEDICATED, TAINTED, id="tainted"),
        pytest.param({"tolerations": [{"key": "dedicated", "value": "gpu"}]}, DEDICATED, "", id="equal"),
        pytest.param({"tolerations": [{"key": "dedicated", "value": "x"}]}, DEDICATED, TAINTED, id="other-value"),
        pytest.param({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}, DEDICATED, "", id="exists"),
        pytest.param(
            {"tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}]}, DEDICATED, TAINTED,
            id="other-effect",
        ),
        pytest.param({}, {"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}, "", id="preferred-only"),
        pytest.param({}, {"ready": "False"}, TAINTED, id="not-ready"),
        pytest.param({}, {"ready": "Unknown"}, TAINTED, id="unknown"),
        pytest.param(
            {"nodeSelector": {"disk": "ssd"}}, {}, "node(s) didn't match Pod's node affinity/selector", id="selector"
        ),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {"labels": {"disk": "ssd", "a": "b"}}, "", id="selected"),
    ],
)  # fmt: skip
def test_node_keeps_off_the_pods_it_must(spec: dict[str, Any], node: dict[str, Any], reason: str) -> None:
    expected = Rejection((reason,)) if reason else None
    assert rejection(pod_info(**spec), node_state(**node)) == expected


def test_pod_that_does_not_fit_now_may_fit_later() -> None:
    state = node_state("n", pod_info("a", cpu="6"))
    assert rejection(pod_info(cpu="4"), state) is None
    assert rejection(pod_info(cpu="4001m"), state) == Rejection(("Insufficient cpu",), resolvable=True)


def test_pod_larger_than_the_node_never_fits() -> None:
    assert rejection(pod_info(cpu="11"), node_state()) == Rejection(("Insufficient cpu",), resolvable=False)


def test_all_resources_that_lack_are_named() -> None:
    requests = {"example.com/gpu": "1", "memory": "11Gi", "cpu": "11"}
    pod = pod_info(containers=[{"name": "c", "resources": {"requests": requests}}])
    reasons = ("Insufficient cpu", "Insufficient memory", "Insufficient example.com/gpu")
    assert rejection(pod, node_state()) == Rejection(reasons)


def test_node_takes_as_many_pods_as_it_says() -> None:
    state = node_state("n", *(pod_info(str(number)) for number in range(5)))
    assert rejection(pod_info(), state) == Rejection(("Too many pods",), resolvable=True)


@pytest.mark.parametrize(
    ("port", "free"),
    [
        pytest.param({"hostPort": 80}, False, id="same"),
        pytest.param({"hostPort": 81}, True, id="other-port"),
        pytest.param({"hostPort": 80, "protocol": "UDP"}, True, id="other-protocol"),
        pytest.param({"hostPort": 80, "hostIP": "10.0.0.1"}, False, id="every-address-is-taken"),
        pytest.param({}, True, id="no-host-port"),
    ],
)
def test_host_port_is_given_once(port: dict[str, Any], free: bool) -> None:
    first, second = (
        pod_info(name, containers=[{"name": "c", "ports": [{"containerPort": 1, **ports}]}])
        for name, ports in (("a", {"hostPort": 80}), ("b", port))
    )
    rejected = rejection(second, node_state("n", first))
    words = "node(s) didn't have free ports for the requested pod ports"
    assert rejected == (None if free else Rejection((words,), resolvable=True))


def test_pod_that_goes_first_is_counted_already() -> None:
    assert rejection(pod_info(cpu="5"), node_state(), [pod_info("first", cpu="6")]) is not None


TERM = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        pytest.param({"key": "zone", "operator": "In", "values": ["a", "b"]}, True, id="in"),
        pytest.param({"key": "zone", "operator": "NotIn", "values": ["a"]}, False, id="not-in"),
        pytest.param({"key": "none", "operator": "NotIn", "values": ["a"]}, True, id="absent-is-not-in"),
        pytest.param({"key": "zone", "operator": "Exists"}, True, id="exists"),
        pytest.param({"key": "zone", "operator": "DoesNotExist"}, False, id="does-not-exist"),
        pytest.param({"key": "cores", "operator": "Gt", "values": ["7"]}, True, id="greater"),
        pytest.param({"key": "cores", "operator": "Lt", "values": ["8"]}, False, id="not-less"),
        pytest.param({"key": "zone", "operator": "Gt", "values": ["7"]}, False, id="no-number"),
        pytest.param({"key": "under", "operator": "Gt", "values": ["7"]}, False, id="underscore-is-no-number"),
        pytest.param({"key": "cores", "operator": "Lt", "values": ["9" * 20]}, False, id="more-than-64-bits"),
    ],
)
def test_required_affinity_is_by_labels(requirement: dict[str, Any], matches: bool) -> None:
    terms = [{"matchExpressions": [requirement]}]
    pod = pod_info(affinity={"nodeAffinity": {TERM: {"nodeSelectorTerms": terms}}})
    assert (rejection(pod, node_state(labels={"zone": "a", "cores": "8", "under": "1_0"})) is None) is matches


def test_affinity_to_a_node_is_by_its_name() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
    pod = pod_info(affinity={"nodeAffinity": {TERM: {"nodeSelectorTerms": [{"matchFields": fields}]}}})
    assert rejection(pod, node_state("n")) is None
    assert rejection(pod, node_state("m")) is not None


def test_one_term_of_several_is_enough_and_an_empty_one_matches_nothing() -> None:
    exists = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    for terms, matches in (([{}, exists], True), ([{}], False)):
        pod = pod_info(affinity={"nodeAffinity": {TERM: {"nodeSelectorTerms": terms}}})
        assert (rejection(pod, node_state(labels={"zone": "a"})) is None) is matches
