from typing import Any

import pytest

from kcr.apiserver.kinds.core import EventStrategy, LeaseStrategy
from kcr.apiserver.kinds.core.shape import UndecodableError
from kcr.apiserver.kinds.strategy import Manifest
from tests.kit.manifests import texts


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
