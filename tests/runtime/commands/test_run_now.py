"""`kcr run-now`: a Job of a CronJob, beside its schedule."""

import pytest

from kcr.api.batch import CronJob, Job
from kcr.api.core import Event
from kcr.api.meta import Key, is_controlled_by
from tests.kit.cronjob_harness import create, manifest
from tests.kit.harness import finished
from tests.kit.served_cluster import ServedCluster
from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(scope="module")
def cron(served: ServedCluster) -> CronJob:
    return served.call(create(served.cluster.client, manifest("hello", "0 0 1 1 *", suspend=True)))


def test_job_has_owner_labels_and_mark_of_a_manual_run(kcr: Command, served: ServedCluster, cron: CronJob) -> None:
    client = served.cluster.client
    assert kcr("run-now", "cj/hello", "--name", "hello-extra")[:2] == (0, "job.batch/hello-extra created\n")
    job = served.call(finished(client, "hello-extra"))
    assert is_controlled_by(job, cron)
    assert job.metadata.labels == {"a": "b"}
    assert job.metadata.annotations == {
        "x": "y", "cronjob.kubernetes.io/instantiate": "manual", "kcr.dev/run-now": "true",
    }  # fmt: skip
    events = served.call(client.list(Event, "default", fields="involvedObject.kind=CronJob,involvedObject.name=hello"))
    assert [(one.reason, one.message) for one in events] == [
        ("RunNow", "Created job hello-extra on request, beside the schedule")
    ]


def test_name_taken_is_one_line(kcr: Command, served: ServedCluster, cron: CronJob) -> None:
    assert kcr("run-now", "cronjob/hello", "--name", "hello-taken").code == 0
    again = kcr("run-now", "cronjob/hello", "--name", "hello-taken")
    assert (again.code, again.out) == (1, "")
    assert again.err == ("kcr: job.batch/hello-taken already exists: to start one more, name the new one with --name\n")


def test_drawn_name_has_the_minute(kcr: Command, served: ServedCluster, cron: CronJob) -> None:
    printed = kcr("run-now", "cronjob/hello", "-o", "name", "--dry-run=server")
    assert printed.code == 0
    name = printed.out.strip().removeprefix("job.batch/")
    base, _, minute = name.rpartition("-m")
    assert (base, minute.isdecimal(), len(minute)) == ("hello", True, 8)
    assert name not in {job.metadata.name for job in served.call(served.cluster.client.list(Job, "default"))}


def test_absent_cronjob_is_one_line(kcr: Command) -> None:
    printed = kcr("run-now", "cronjob/absent", "-n", "default")
    assert (printed.code, printed.out, printed.err.count("\n")) == (1, "", 1)
    assert printed.err.startswith('kcr: cronjobs.batch "absent" not found')


def test_name_of_another_kind_is_a_usage_error(kcr: Command) -> None:
    printed = kcr("run-now", "job/hello")
    assert printed.code == 2
    assert "'job/hello' names no CronJob: write cronjob/NAME" in printed.err


def test_cronjob_that_is_being_deleted_starts_nothing(kcr: Command, served: ServedCluster) -> None:
    client = served.cluster.client
    going = manifest("going")
    going["metadata"]["finalizers"] = ["example.dev/hold"]
    served.call(create(client, going))
    served.call(client.delete(CronJob, Key("default", "going")))
    printed = kcr("run-now", "cronjob/going")
    assert (printed.code, printed.err.startswith("kcr: cronjob.batch/going is being deleted")) == (1, True)


def test_absent_cronjob_is_one_line_with_the_list_of_its_kind(kcr: Command) -> None:
    absent = kcr("run-now", "cronjob/absent")
    see = "name its namespace with -n, or see `kubectl get cronjobs -A`"
    assert (absent.code, absent.err) == (1, f'kcr: cronjobs.batch "absent" not found: {see}\n')
