"""`kcr jobs`: the table, JSON, selections, and changes as they happen."""

import asyncio
import json
from collections.abc import Sequence
from random import Random

import pytest
import yaml

from kcr.api.batch import Job
from kcr.api.core import Namespace, Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.controllers.job.commands.jobs import JobRow, read_evidence, showing
from kcr.controllers.job.commands.jobs_watch import follow
from kcr.errors import ForbiddenError
from kcr.informer import Selection
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.documents import ROOT, blocks
from tests.kit.harness import create, finished, job_controller, manifest, pods_of
from tests.kit.served_cluster import ServedCluster
from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

UNSCHEDULABLE = {
    "status": {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]
    }
}
GUIDE = ROOT / "docs" / "guide" / "jobs-at-scale.md"
ENDLESS = {"sim.kcr.dev/run-for": "forever"}


@pytest.fixture(scope="module", autouse=True)
def _jobs(served: ServedCluster) -> None:
    client = served.cluster.client
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    served.call(client.create_manifest(Namespace, namespace))
    for job in (manifest("good"), manifest("idle", suspend=True), manifest("endless", annotations=ENDLESS)):
        job["metadata"]["labels"] = {"app": job["metadata"]["name"]}
        served.call(create(client, job))
    there = manifest("there", suspend=True)
    there["metadata"]["namespace"] = "team"
    served.call(client.create_manifest(Job, there, "team"))
    served.call(finished(client, "good"))


def test_table_has_state_and_progress_of_each_job(kcr: Command) -> None:
    shown = kcr("jobs")
    header, *rows = [line.split() for line in shown.lines]
    assert (shown.code, header[:3]) == (0, ["NAMESPACE", "NAME", "STATE"])
    assert [row[:5] for row in rows] == [
        ["default", "endless", "running", "-", "0/1"],
        ["default", "idle", "suspended", "-", "0/1"],
        ["default", "good", "complete", "CompletionsReached", "1/1"],
    ]
    assert shown.err == "3 Jobs: 1 running, 1 suspended, 1 complete\n"


def test_namespaces_and_labels_select_jobs(kcr: Command) -> None:
    assert [line.split()[1] for line in kcr("jobs", "-A").lines[1:]] == ["endless", "idle", "there", "good"]
    assert [line.split()[1] for line in kcr("jobs", "-n", "team").lines[1:]] == ["there"]
    assert [line.split()[1] for line in kcr("jobs", "-A", "-l", "app in (good,idle)").lines[1:]] == ["idle", "good"]
    none = kcr("jobs", "-l", "app=none")
    assert (none.code, none.out, none.err) == (0, "", "no Jobs\n")


def test_fields_select_jobs(kcr: Command) -> None:
    assert kcr("jobs", "-A", "--field-selector", "metadata.name=idle", "-o", "name").lines == ["job.batch/idle"]
    wrong = kcr("jobs", "--field-selector", "spec.colour=red")
    assert (wrong.code, wrong.out) == (1, "")
    assert "spec.colour" in wrong.err


def test_rows_are_sorted_when_asked(kcr: Command) -> None:
    assert [line.split()[1] for line in kcr("jobs", "-A", "--sort-by", "name").lines[1:]] == [
        "endless", "good", "idle", "there",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "column"),
    [
        (".metadata.name", "name"),
        ("{.metadata.namespace}", "namespace"),
        (".metadata.creationTimestamp", "age"),
    ],
)
def test_paths_of_kubectl_sort_as_their_columns(kcr: Command, path: str, column: str) -> None:
    names = [kcr("jobs", "-A", "--sort-by", one, "-o", "name").lines for one in (path, column)]
    assert names[0] == names[1]
    wrong = kcr("jobs", "--sort-by", ".spec.parallelism")
    assert (wrong.code, "'.spec.parallelism' is not one of" in wrong.err) == (2, True)


def test_names_and_wide_rows_are_as_of_kubectl(kcr: Command) -> None:
    assert kcr("jobs", "-A", "-o", "name", "-l", "app").lines == [
        "job.batch/endless", "job.batch/idle", "job.batch/good",
    ]  # fmt: skip
    header, row = kcr("jobs", "-l", "app=good", "-o", "wide").lines
    assert (header.split()[-2:], row.split()[-1]) == (["DURATION", "OWNER"], "-")


def test_colours_are_for_those_who_see_them(kcr: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in kcr("jobs").out
    assert "\x1b[32mcomplete\x1b[0m" in kcr("jobs", "--color", "always").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32mcomplete\x1b[0m" in kcr("jobs", "--color", "always").out
    assert "\x1b" not in kcr("jobs").out


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_documents_have_rows_and_summary(kcr: Command, form: str) -> None:
    text = kcr("jobs", "-l", "app=good", "-o", form).out
    shown = json.loads(text) if form == "json" else yaml.safe_load(text)
    (row,) = shown["jobs"]
    assert shown["summary"] == "1 Jobs: 1 complete"
    assert row.pop("created") <= row.pop("started") <= row.pop("ended")
    assert row == {
        "namespace": "default", "name": "good", "state": "complete", "cause": "CompletionsReached", "completions": 1,
        "succeeded": 1, "active": 0, "failed": 0, "owner": "",
    }  # fmt: skip


def test_commands_of_the_guide_show_jobs(kcr: Command) -> None:
    lines = [line for block in blocks(GUIDE) for line in block.text.splitlines() if line.startswith("kcr jobs")]
    assert lines
    for line in lines:
        assert kcr(*line.split()[1:]).code == 0


def test_wrong_selector_is_one_line(kcr: Command) -> None:
    shown = kcr("jobs", "-l", "a b")
    assert (shown.code, shown.out, len(shown.err.splitlines())) == (1, "", 1)


@pytest.mark.kcr_virtual
async def test_changes_are_shown_until_the_end(kcr_clock: VirtualClock) -> None:
    pictures: list[list[str]] = []

    def show(rows: Sequence[JobRow]) -> None:
        pictures.append([f"{row.name} {row.state} {row.cause}".strip() for row in rows])

    made = EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None)
    async with made as cluster, job_controller(cluster, kcr_clock), asyncio.TaskGroup() as group:
        client = cluster.client
        watching = group.create_task(
            follow(client, Selection(Job, "default"), showing(client, "default", kcr_clock, show))
        )
        await create(cluster.client, manifest("idle", suspend=True))
        await kcr_clock.advance(3)
        assert pictures[-1] == ["idle suspended"]
        await create(cluster.client, manifest("waits"))
        await kcr_clock.advance(3)
        assert pictures[-1] == ["waits pending", "idle suspended"]
        # The Job itself does not change.
        (pod,) = await pods_of(cluster.client, "waits")
        await cluster.client.strategic_patch(Pod, pod.key, UNSCHEDULABLE, subresource="status")
        await kcr_clock.advance(3)
        assert pictures[-1] == ["waits cannot_start unschedulable", "idle suspended"]
        await cluster.client.delete(Job, Key("default", "idle"))
        await kcr_clock.advance(3)
        assert pictures[-1] == ["waits cannot_start unschedulable"]
        watching.cancel()
    # One picture every two and a half seconds, and one half a second after a change.
    assert len(pictures) <= 14


@pytest.mark.kcr_virtual
async def test_parts_that_a_user_may_not_read_are_left_out(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        async with job_controller(cluster, kcr_clock):
            await create(cluster.client, manifest("waits"))
            await kcr_clock.advance(5)
        transport = FaultyTransport(cluster.transport)
        transport.on("list", Pod).fail(ForbiddenError)
        client = Client(transport)
        jobs = await client.list(Job, "default")
        assert await read_evidence(client, "default", jobs) == ((), ())
