from typing import Any

import pytest

from kcr_devcluster.apiserver.kinds.access.service_accounts import ServiceAccountStrategy
from kcr_devcluster.apiserver.kinds.apps.sets import ControllerRevisionStrategy
from kcr_devcluster.apiserver.kinds.core.cluster import NamespaceStrategy, NodeStrategy
from kcr_devcluster.apiserver.kinds.core.config import ConfigMapStrategy
from kcr_devcluster.apiserver.kinds.core.events import EventStrategy, LeaseStrategy
from kcr_devcluster.apiserver.kinds.strategy import UndecodableError
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.manifests import texts


def faults_of_config_map(**members: Any) -> list[str]:
    return texts(ConfigMapStrategy().validate({"metadata": {}, **members}))


def test_config_map_is_held_to_keys_and_size() -> None:
    assert faults_of_config_map(data={"a.b_c-D": "x"}, binaryData={"b": "eA=="}) == []
    assert faults_of_config_map(data={"a b": "x"})[0].startswith('data[a b]: Invalid value: "a b": a valid config key')
    assert faults_of_config_map(data={"a": "x"}, binaryData={"a": ""})[0].startswith("data[a]: Invalid value")
    # AS 16.5
    assert faults_of_config_map(data={"a": "x" * 1048577}) == ["[]: Too long: may not be more than 1048576 bytes"]


def event(**members: Any) -> Manifest:
    return {"metadata": {"namespace": "default"}, "involvedObject": {"namespace": "default"}, **members}


def test_event_shows_members_that_are_always_there() -> None:
    # AS 25.2
    obj = event(lastTimestamp="2026-01-01T00:00:00.5Z")
    EventStrategy().default(obj)
    assert obj == event(
        firstTimestamp=None,
        lastTimestamp="2026-01-01T00:00:00Z",
        eventTime=None,
        source={},
        reportingComponent="",
        reportingInstance="",
    )


@pytest.mark.parametrize(
    ("home", "about", "modern", "accepted"),
    [
        pytest.param("default", "default", False, True, id="same"),
        pytest.param("default", "other", False, False, id="different"),
        pytest.param("default", "", False, True, id="of-the-cluster"),
        pytest.param("other", "", False, False, id="of-the-cluster-elsewhere"),
        pytest.param("kube-system", "", True, True, id="of-the-cluster-in-system"),
        pytest.param("other", "", True, False, id="of-the-cluster-elsewhere-modern"),
    ],
)
def test_event_lives_beside_its_object(home: str, about: str, modern: bool, accepted: bool) -> None:
    told = {"eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "a.io/c", "reportingInstance": "i"}
    obj = event(**told, action="a", reason="r") if modern else event()
    obj |= {"metadata": {"namespace": home}, "involvedObject": {"namespace": about}}
    fault = f'involvedObject.namespace: Invalid value: "{about}": does not match event.namespace'
    assert texts(EventStrategy().validate(obj)) == ([] if accepted else [fault])


def test_event_with_its_own_time_says_who_reports() -> None:
    faults = EventStrategy().validate(event(eventTime="2026-01-01T00:00:00.000000Z", message="x" * 1025))
    required = [fault.field for fault in faults if fault.reason == "FieldValueRequired"]
    assert required == ["reportingComponent", "reportingInstance", "action", "reason"]
    assert faults[-1].message == 'Invalid value: "": can have at most 1024 characters'


def test_lease_times_need_six_digits() -> None:
    # AS 8.7
    good: Manifest = {"metadata": {}, "spec": {"renewTime": "2026-01-01T01:00:00.000001+01:00"}}
    LeaseStrategy().default(good)
    assert good["spec"]["renewTime"] == "2026-01-01T00:00:00.000001Z"
    with pytest.raises(UndecodableError, match=r'Lease in version "v1" .* cannot parse "Z" as ".000000"'):
        LeaseStrategy().default({"metadata": {}, "spec": {"renewTime": "2026-01-01T00:00:00Z"}})


def test_lease_numbers_have_lower_bounds() -> None:
    faults = LeaseStrategy().validate({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}})
    assert texts(faults) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ]


def test_namespace_gets_label_finalizer_and_phase() -> None:
    # AS 15
    strategy, obj = NamespaceStrategy(), {"metadata": {"name": "n", "labels": {"a": "b"}}}
    strategy.default(obj)
    strategy.prepare_create(obj)
    assert obj == {
        "metadata": {"name": "n", "labels": {"a": "b", "kubernetes.io/metadata.name": "n"}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def test_update_of_namespace_keeps_finalizers_and_status() -> None:
    old: Manifest = {"metadata": {}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    new: Manifest = {"metadata": {}, "spec": {"finalizers": []}}
    NamespaceStrategy().prepare_update(new, old)
    assert new == old


def test_node_registers_with_its_status() -> None:
    obj: Manifest = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": 2, "memory": "1024Mi"}}}
    strategy = NodeStrategy()
    strategy.default(obj)
    strategy.prepare_create(obj)
    amounts = {"cpu": "2", "memory": "1Gi"}
    assert (obj["status"]["capacity"], obj["status"]["allocatable"]) == (amounts, amounts)
    # Go writes these even when they are empty.
    assert obj["status"]["nodeInfo"]["kubeletVersion"] == ""
    assert obj["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


def node(spec: Manifest, **status: Any) -> Manifest:
    made: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": spec, "status": status}
    NodeStrategy().default(made)
    return made


CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
PAIR = "may specify no more than one CIDR for each IP family"
ONCE = 'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'


def test_ranges_of_a_node_are_one_for_each_family() -> None:
    strategy = NodeStrategy()
    assert texts(strategy.validate(node({"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}))) == []
    assert texts(strategy.validate(node({"podCIDRs": ["10.0.0.0/24", "b", "c"]}))) == [
        f'spec.podCIDRs[1]: Invalid value: "b": {CIDR}',
        f'spec.podCIDRs[2]: Invalid value: "c": {CIDR}',
        "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[1]: "
        "<nil> (invalid CIDR address: b)",
        f'spec.podCIDRs: Invalid value: ["10.0.0.0/24","b","c"]: {PAIR}',
    ]
    twice = ["10.0.0.0/24", "10.1.0.0/24"]
    assert texts(strategy.validate(node({"podCIDRs": twice}))) == [
        f'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: {PAIR}'
    ]


def test_ranges_and_old_name_of_a_node_are_set_once() -> None:
    strategy, taint = NodeStrategy(), {"key": "a"}
    old = node({"podCIDRs": ["10.0.0.0/24"], "taints": [taint]})
    new = node({"podCIDR": "b", "taints": [taint], "externalID": "x"})
    effect = "metadata.taints[0].effect: Required value"
    assert texts(strategy.validate_update(new, old)) == [
        effect, f'spec.podCIDRs[0]: Invalid value: "b": {CIDR}', ONCE, effect,
        "spec.externalID: Forbidden: may not be updated",
    ]  # fmt: skip
    assert texts(strategy.validate_update(node({}), node({"podCIDRs": ["10.0.0.0/24"]}))) == [ONCE]


def test_configuration_of_the_kubelet_is_not_stored() -> None:
    strategy, new = NodeStrategy(), node({"configSource": {}}, config={"error": "x"}, conditions=[{"type": "Ready"}])
    assert new["status"]["conditions"][0]["status"] == ""
    strategy.prepare_status(new, node({}))
    assert "config" not in new["status"]
    assert "configSource" not in new["spec"]


def test_features_that_a_node_declares_are_sorted_names() -> None:
    strategy, field = NodeStrategy(), "status.declaredFeatures"
    assert texts(strategy.validate(node({}, declaredFeatures=["A", "Ab/c"]))) == []
    errors = texts(strategy.validate_status(node({}, declaredFeatures=["B", "B", "A", "x"]), node({})))
    assert errors[:2] == [
        f'{field}[1]: Duplicate value: "B"', f'{field}[2]: Invalid value: "A": list must be sorted alphabetically'
    ]  # fmt: skip
    assert errors[2].startswith(f'{field}[3]: Invalid value: "x": invalid feature name "x": must start with')
    assert errors[3:] == errors[:3]


def service_account(**metadata: Any) -> Manifest:
    secrets = [{"name": "a", "namespace": "b", "uid": "u", "fieldPath": "p"}, {"kind": "Secret"}]
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "secrets": secrets}


def test_service_account_knows_secrets_by_name_alone() -> None:
    made, changed = service_account(), service_account()
    ServiceAccountStrategy().prepare_create(made)
    ServiceAccountStrategy().prepare_update(changed, made)
    assert made["secrets"] == changed["secrets"] == [{"name": "a"}, {}]


def test_deprecated_annotation_of_a_service_account_is_told_once() -> None:
    plain = service_account()
    deprecated = service_account(annotations={"kubernetes.io/enforce-mountable-secrets": "true"})
    strategy = ServiceAccountStrategy()
    (told,) = strategy.warnings(deprecated, None)
    assert told.startswith(
        "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer"
    )
    assert strategy.warnings(deprecated, plain) == [told]
    assert strategy.warnings(deprecated, deprecated) == strategy.warnings(plain, None) == []


@pytest.mark.parametrize(
    ("data", "faults"),
    [
        pytest.param({}, [], id="object"),
        pytest.param(None, ["data: Required value: data is mandatory"], id="absent"),
        pytest.param([1], ["data: Required value: data must be a valid JSON object"], id="list"),
        pytest.param("a", ["data: Required value: data must be a valid JSON object"], id="text"),
    ],
)
def test_data_of_a_controller_revision_is_an_object(data: Any, faults: list[str]) -> None:
    strategy = ControllerRevisionStrategy("controllerrevisions.apps", has_generation=False)
    assert texts(strategy.validate({"metadata": {}, "data": data})) == faults
    # One that is stored already may be another value.
    assert strategy.validate_update({"metadata": {}, "data": data}, {"metadata": {}, "data": data}) == []
