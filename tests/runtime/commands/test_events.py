"""`kcr events`: the events of a namespace, those of a Job with its pods, and those to come."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest

from kcr.api.batch import CronJob, Job
from kcr.api.core import Event, Namespace, ObjectReference, Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.cli.target import ObjectName
from kcr.client import Client
from kcr.clock import SystemClock
from kcr.controllers.job.commands.events import EventQuery, follow, owned
from kcr.errors import ForbiddenError, ServerError
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, finished, job_controller, manifest, pods_of
from tests.kit.served_cluster import ServedCluster
from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

FAILS = {"sim.kcr.dev/exit-code": "3"}


@pytest.fixture(scope="module", autouse=True)
def _jobs(served: ServedCluster) -> None:
    client = served.cluster.client
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    served.call(client.create_manifest(Namespace, namespace))
    cron = {
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": manifest("x")["spec"]}},
    }  # fmt: skip
    made = served.call(client.create_manifest(CronJob, cron, "default"))
    reference = {
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": made.metadata.uid, "controller": True,
    }  # fmt: skip
    run = manifest("nightly-1")
    run["metadata"]["ownerReferences"] = [reference]
    for job in (manifest("bad", backoffLimit=0, annotations=FAILS), run):
        served.call(create(client, job))
    there = manifest("bad")
    there["metadata"]["namespace"] = "team"
    served.call(client.create_manifest(Job, there, "team"))
    served.call(finished(client, "bad"))
    served.call(finished(client, "nightly-1"))


def objects(lines: Sequence[str], column: int = 3) -> set[str]:
    """Return the objects of the rows, pods without the end of their names."""
    found = {line.split()[column] for line in lines}
    return {one.rpartition("-")[0] if one.startswith("Pod/") else one for one in found}


def test_events_of_a_namespace_are_a_table(kcr: Command) -> None:
    shown = kcr("events")
    header, *rows = shown.lines
    assert (shown.code, header.split()) == (0, ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"])
    assert objects(rows) == {"Job/bad", "Pod/bad", "Job/nightly-1", "Pod/nightly-1"}


def test_events_of_a_job_are_those_of_its_pods_too(kcr: Command) -> None:
    assert objects(kcr("events", "--for", "job/bad", "--no-headers").lines) == {"Job/bad", "Pod/bad"}
    rows = kcr("events", "--for", "cronjob/nightly", "--no-headers").lines
    assert objects(rows) == {"Job/nightly-1", "Pod/nightly-1"}


def test_events_of_another_object_are_its_own(kcr: Command, served: ServedCluster) -> None:
    (pod,) = served.call(pods_of(served.cluster.client, "bad"))
    rows = kcr("events", "--for", f"pods/{pod.metadata.name}", "--no-headers").lines
    assert {row.split()[3] for row in rows} == {f"Pod/{pod.metadata.name}"}


def test_all_namespaces_are_a_column(kcr: Command) -> None:
    header, *rows = kcr("events", "-A", "--for", "job/bad").lines
    assert header.split()[0] == "NAMESPACE"
    assert {row.split()[0] for row in rows} == {"default", "team"}
    assert objects(rows, 4) == {"Job/bad", "Pod/bad"}


def test_types_select_events(kcr: Command) -> None:
    (row,) = kcr("events", "--types=warning", "--no-headers").lines
    assert row.split()[1:4] == ["Warning", "BackoffLimitExceeded", "Job/bad"]
    assert len(kcr("events", "--types", "Normal,Warning").lines) == len(kcr("events").lines)


def test_json_is_a_list_of_events(kcr: Command) -> None:
    shown = json.loads(kcr("events", "--for", "job/bad", "--types=Warning", "-o", "json").out)
    (item,) = shown.pop("items")
    assert shown == {"apiVersion": "v1", "kind": "EventList"}
    assert (item["apiVersion"], item["kind"], item["involvedObject"]["name"]) == ("v1", "Event", "bad")
    assert json.loads(kcr("events", "-n", "kube-public", "-o", "json").out)["items"] == []


def test_events_of_a_node_are_found_from_any_namespace(kcr: Command, served: ServedCluster) -> None:
    about = ObjectReference(kind="Node", name="kcr-node-0", api_version="v1")
    metadata = ObjectMeta(name="kcr-node-0.1", namespace="default")
    made = Event(metadata=metadata, involved_object=about, type="Normal", reason="Rebooted", message="again")
    served.call(served.cluster.client.create(made))
    assert "Rebooted" in kcr("events", "-n", "team", "--for", "node/kcr-node-0").out


def test_no_events_are_a_line_on_stderr(kcr: Command) -> None:
    assert kcr("events", "--for", "job/none") == (0, "", "No events found in default namespace.\n")
    assert kcr("events", "-A", "--for", "job/none") == (0, "", "No events found.\n")


def test_events_are_ordered_by_the_last_time(kcr: Command, served: ServedCluster) -> None:
    now = SystemClock().now().replace(microsecond=0)
    for name, minutes in (("a", 1), ("b", 3), ("c", 2)):
        about = ObjectReference(kind="ConfigMap", namespace="team", name=name)
        metadata = ObjectMeta(name=name, namespace="team")
        event = Event(
            metadata=metadata, involved_object=about, reason="Changed", type="Normal", count=2,
            first_timestamp=now - timedelta(hours=5), last_timestamp=now - timedelta(minutes=minutes),
        )  # fmt: skip
        served.call(served.cluster.client.create(event))
    rows = [row.split() for row in kcr("events", "-n", "team").lines if " Changed " in row]
    assert [(row[1], row[-1]) for row in rows] == [("(x2", f"ConfigMap/{name}") for name in "bca"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(("--types=Bad",), 2, "'Bad' is not a type: write Normal or Warning", id="type"),
        pytest.param(("--for", "bad"), 2, "'bad' names no object: write KIND/NAME, such as job/bad", id="name"),
        pytest.param(("--for", "jbo/bad"), 1, "the server has no kind 'jbo'", id="kind"),
    ],
)
def test_wrong_option_is_named(kcr: Command, arguments: tuple[str, ...], code: int, words: str) -> None:
    shown = kcr("events", *arguments)
    assert (shown.code, shown.out) == (code, "")
    assert words in shown.err


@pytest.mark.kcr_virtual
async def test_later_events_of_a_job_and_its_pods_follow(kcr_clock: VirtualClock) -> None:
    shown: list[tuple[str, str, int]] = []

    def show(events: Sequence[Event]) -> None:
        shown.extend((one.involved_object.kind, one.reason, one.times) for one in events)

    made = EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None)
    async with made as cluster, job_controller(cluster, kcr_clock), asyncio.TaskGroup() as group:
        client = cluster.client
        transport = FaultyTransport(cluster.transport)
        query = EventQuery("default", ObjectName(Job, "pi"))
        watching = group.create_task(follow(Client(transport), query, show))
        # While pods cannot be read, an event may be about that of another Job.
        transport.on("list", Pod).fail(ServerError)
        await create(client, manifest("pi"))
        await create(client, manifest("other"))
        await kcr_clock.advance(3)
        (pod,) = await pods_of(client, "pi")
        about = ObjectReference(kind="Pod", namespace="default", name=pod.metadata.name, uid=pod.metadata.uid)
        late = Event(metadata=ObjectMeta(name="late", namespace="default"), involved_object=about, reason="BackOff")
        await client.create(late)
        await kcr_clock.advance(3)
        assert shown == [("Job", "SuccessfulCreate", 1)]
        transport.heal()
        await kcr_clock.advance(3)
        assert shown[1:] == [("Pod", "BackOff", 1)]
        await client.merge_patch(Event, Key("default", "late"), {"count": 2})
        await kcr_clock.advance(3)
        assert shown[2:] == [("Pod", "BackOff", 2)]
        await client.delete(Pod, pod.key)
        await client.merge_patch(Event, Key("default", "late"), {"count": 3})
        await kcr_clock.advance(3)
        assert ("Pod", "BackOff", 3) in shown[3:]
        watching.cancel()


@pytest.mark.kcr_virtual
async def test_dependents_that_may_not_be_listed_are_omitted(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "1", "controller": True}
        run = manifest("nightly-1")
        run["metadata"]["ownerReferences"] = [owner]
        job = await create(cluster.client, run)
        transport = FaultyTransport(cluster.transport)
        transport.on("list", Pod).fail(ForbiddenError)
        query = EventQuery("default", ObjectName(CronJob, "nightly"))
        assert await owned(Client(transport), query) == {job.metadata.uid}
        transport.on("list", Job).fail(ForbiddenError)
        assert await owned(Client(transport), query) == set()
