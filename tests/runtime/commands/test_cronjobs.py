"""`kcr cronjobs`: the table, names, and JSON."""

import json
from datetime import UTC, datetime

import pytest
import yaml

from kcr.api.core import Namespace
from tests.kit.cronjob_harness import create, manifest
from tests.kit.harness import finished
from tests.kit.served_cluster import ServedCluster
from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(scope="module", autouse=True)
def _crons(served: ServedCluster) -> None:
    client = served.cluster.client
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "night"}}
    served.call(client.create_manifest(Namespace, namespace))
    yearly = manifest("yearly", "0 0 1 1 *", timeZone="Europe/Berlin")
    yearly["metadata"]["labels"] = {"app": "report"}
    served.call(create(client, yearly))
    served.call(create(client, manifest("never", "0 0 30 2 *")))
    served.call(create(client, manifest("held", "0 0 1 1 *", suspend=True)))


def test_stopped_ones_come_first_with_their_cause(kcr: Command) -> None:
    header, *rows = kcr("cronjobs").lines
    assert header.split() == ["NAMESPACE", "NAME", "SCHEDULE", "NEXT", "LAST", "ACTIVE", "CAUSE"]
    assert [row.split()[1] for row in rows] == ["held", "never", "yearly"]
    assert [row[header.index("CAUSE") :] for row in rows] == [
        "suspended", "never runs: no time fits its schedule", "-",
    ]  # fmt: skip
    assert [row[header.index("NEXT") :].split()[0] == "-" for row in rows] == [True, True, False]
    assert "0 0 1 1 * Europe/Berlin" in rows[-1]


def test_names_and_objects_are_as_of_kubectl(kcr: Command) -> None:
    assert kcr("cronjobs", "-l", "app=report", "-o", "name").lines == ["cronjob.batch/yearly"]
    (row,) = json.loads(kcr("cronjobs", "-l", "app=report", "-o", "json").out)["cronJobs"]
    moment = datetime.fromisoformat(row.pop("next"))
    assert (moment.astimezone(UTC).month, moment.astimezone(UTC).hour, moment.minute) == (12, 23, 0)
    assert row == {
        "namespace": "default", "name": "yearly", "schedule": "0 0 1 1 * Europe/Berlin", "last": None, "active": 0,
        "cause": "",
    }  # fmt: skip
    assert len(yaml.safe_load(kcr("cronjobs", "-A", "-o", "yaml").out)["cronJobs"]) == 3


def test_failed_job_is_a_cause(kcr: Command, served: ServedCluster) -> None:
    client = served.cluster.client
    failing = manifest("failing", "0 0 1 1 *")
    template = failing["spec"]["jobTemplate"]["spec"]
    template["backoffLimit"] = 0
    template["template"].setdefault("metadata", {})["annotations"] = {"sim.kcr.dev/exit-code": "1"}
    served.call(create(client, failing))
    assert kcr("run-now", "cj/failing", "--name", "failing-now").code == 0
    served.call(finished(client, "failing-now"))
    header, row, *_ = kcr("cronjobs").lines
    assert (row.split()[1], row[header.index("CAUSE") :]) == ("failing", "its latest Job failed")


def test_empty_namespace_is_one_line(kcr: Command) -> None:
    nothing = kcr("cronjobs", "-n", "night")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no CronJobs\n")
