"""Events of the core group and of events.k8s.io/v1: one storage, two APIs.

Source: kubernetes/pkg/apis/events/v1/conversion.go; pkg/apis/core/validation/events.go.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.schema import protobuf
from kcr_devcluster.apiserver.schema.protobuf_encoder import encode
from tests.kit.api import TABLE, Api
from tests.kit.protobuf import PROTOBUF

pytestmark = pytest.mark.kcr_virtual

CORE, NEW = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"


def new_event(name: str = "e", **fields: Any) -> dict[str, Any]:
    """Return a complete Event of events.k8s.io."""
    return {
        "metadata": {"name": name}, "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}, "note": "hi",
        "reason": "Tested", "type": "Normal", "action": "Test", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "a.b/c", "reportingInstance": "x", **fields,
    }  # fmt: skip


async def test_event_is_one_object_in_both_groups(api: Api) -> None:
    watch = await api.watch(f"{NEW}?")
    new = await api.post(NEW, new_event())
    old = await api.get(f"{CORE}/e")
    assert (new["note"], new["regarding"], new["reportingController"]) == (
        old["message"], old["involvedObject"], old["reportingComponent"],
    )  # fmt: skip
    assert new["deprecatedSource"] == old["source"] == {}
    assert "message" not in new
    assert "note" not in old
    assert (await watch.next())["object"] == new
    source = {"component": "c", "host": "h"}
    about = {"kind": "Pod", "namespace": "default", "name": "q"}
    fields = {"source": source, "count": 2, "firstTimestamp": "2026-01-01T00:00:00Z"}
    await api.post(CORE, {"metadata": {"name": "f"}, "involvedObject": about, "message": "ho", **fields})
    other = await api.get(f"{NEW}/f")
    assert (other["deprecatedSource"], other["deprecatedCount"], other["note"]) == (source, 2, "ho")
    assert [one["metadata"]["name"] for one in (await api.get(NEW))["items"]] == ["e", "f"]


async def test_new_events_are_selected_by_their_own_names(api: Api) -> None:
    await api.post(NEW, new_event())
    await api.post(NEW, new_event("other", regarding={"kind": "Job", "namespace": "default", "name": "j"}))
    for selector in ("regarding.name=p", "regarding.kind=Pod,reportingController=a.b/c,type=Normal,reason=Tested"):
        found = (await api.get(f"{NEW}?fieldSelector={selector}"))["items"]
        assert [one["metadata"]["name"] for one in found] == ["e"]
    reply = await api.call("GET", f"{NEW}?fieldSelector=involvedObject.name=p")
    assert (reply.status, reply.body["message"]) == (400, "field label not supported: involvedObject.name")


@pytest.mark.parametrize(("source", "names"), [("a.b/c", ["e"]), ("c", ["f"]), ("", []), ("h", [])])
async def test_events_are_selected_by_who_reports_them(api: Api, source: str, names: list[str]) -> None:
    """Source: pkg/registry/core/event/strategy.go, ToSelectableFields: a source, or else the reporting controller."""
    await api.post(NEW, new_event())
    about = {"kind": "Pod", "namespace": "default", "name": "q"}
    told = {"source": {"component": "c", "host": "h"}, "reportingComponent": "a.b/c"}
    await api.post(CORE, {"metadata": {"name": "f"}, "involvedObject": about, **told})
    found = (await api.get(f"{CORE}?fieldSelector=source={source}"))["items"]
    assert [one["metadata"]["name"] for one in found] == names


async def test_new_event_has_to_be_complete(api: Api) -> None:
    reply = await api.call("POST", NEW, {"metadata": {"name": "e"}, "deprecatedCount": 1})
    assert reply.body["message"] == (
        'Event "e" is invalid: [eventTime: Required value, type: Invalid value: "": has invalid value: , '
        'count: Invalid value: "": needs to be unset]'
    )
    reply = await api.call("POST", NEW, new_event(reportingController=""))
    assert 'Event "e" is invalid: [reportingController: Required value' in reply.body["message"]
    reply = await api.call("POST", CORE, {"metadata": {"name": "e"}, "involvedObject": {}})
    assert reply.status == 201


async def test_series_of_a_new_event_changes_and_nothing_else(api: Api) -> None:
    await api.post(NEW, new_event())
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    await api.patch(f"{NEW}/e", {"series": series})
    assert (await api.get(f"{CORE}/e"))["series"] == series
    merge = "application/merge-patch+json"
    for change, message in (
        ({"note": "other"}, 'message: Invalid value: "other": field is immutable'),
        ({"series": {"count": 1}}, 'series.count: Invalid value: "": should be at least 2'),
    ):
        reply = await api.call("PATCH", f"{NEW}/e", change, content_type=merge)
        assert reply.body["message"] == f'Event "e" is invalid: {message}'
    await api.patch(f"{CORE}/e", {"message": "through the core group"})


async def test_new_events_have_a_table_and_protobuf(api: Api) -> None:
    new = await api.post(NEW, new_event())
    (row,) = (await api.get(NEW, accept=TABLE))["rows"]
    assert row["cells"][1:5] == ["Normal", "Tested", "pod/p", ""]
    reply = await api.call("GET", f"{NEW}/e", accept=PROTOBUF)
    assert protobuf.decode(reply.body) == new
    sent = encode({**new_event("f"), "apiVersion": "events.k8s.io/v1", "kind": "Event"})
    reply = await api.call("POST", NEW, sent, content_type=PROTOBUF)
    assert (reply.status, reply.body["note"], reply.body["regarding"]["name"]) == (201, "hi", "p")


async def test_new_event_can_be_applied(api: Api) -> None:
    event = {**new_event(), "apiVersion": "events.k8s.io/v1", "kind": "Event"}
    assert (await api.apply(f"{NEW}/e", event)).status == 201
    reply = await api.apply(f"{NEW}/e", event)
    assert (reply.status, reply.body["note"]) == (200, "hi")


async def test_put_creates_a_new_event(api: Api) -> None:
    reply = await api.call("PUT", f"{NEW}/e", new_event())
    assert (reply.status, reply.body["note"]) == (201, "hi")
