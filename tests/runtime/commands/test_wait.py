"""`kcr wait`: exit codes, and the line for each Job."""

import re

import pytest

from kcr.api.batch import Job
from kcr.api.core import Namespace
from kcr.api.meta import Key
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import create, finished, manifest
from tests.kit.served_cluster import ServedCluster
from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

FAILS = {"sim.kcr.dev/exit-code": "3"}
ENDLESS = {"sim.kcr.dev/run-for": "forever"}


@pytest.fixture(scope="module", autouse=True)
def _jobs(served: ServedCluster) -> None:
    client = served.cluster.client
    for name, annotations in (("good", {}), ("bad", FAILS), ("endless", ENDLESS)):
        served.call(create(client, manifest(name, backoffLimit=0, annotations=annotations)))


def test_complete_jobs_are_success(kcr: Command) -> None:
    assert kcr("wait", "job/good", "jobs.batch/good")[:2] == (0, "job.batch/good complete\n")


@pytest.mark.parametrize(
    ("job", "state", "code"),
    [
        pytest.param("good", "complete", 0, id="complete"),
        pytest.param("good", "condition=Complete", 0, id="as-of-kubectl"),
        pytest.param("good", "failed", 1, id="complete-rather-than-failed"),
        pytest.param("bad", "failed", 0, id="failed"),
        pytest.param("bad", "complete", 1, id="failed-rather-than-complete"),
    ],
)
def test_end_that_is_waited_for_is_success(kcr: Command, job: str, state: str, code: int) -> None:
    assert kcr("wait", f"job/{job}", "--for", state).code == code


def test_kind_may_come_once_before_the_names(kcr: Command) -> None:
    assert kcr("wait", "job", "good", "good").lines == ["job.batch/good complete"]


def test_jobs_are_chosen_by_labels(kcr: Command, served: ServedCluster) -> None:
    for name in ("one", "two"):
        job = manifest(name)
        job["metadata"]["labels"] = {"set": "numbers"}
        served.call(create(served.cluster.client, job))
    waited = kcr("wait", "-l", "set=numbers")
    assert (waited.code, sorted(waited.lines)) == (0, ["job.batch/one complete", "job.batch/two complete"])


def test_jobs_of_all_namespaces_are_chosen_by_labels(kcr: Command, served: ServedCluster) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    served.call(served.cluster.client.create_manifest(Namespace, namespace))
    for place, annotations in (("default", {}), ("team", FAILS)):
        job = manifest("same", backoffLimit=0, annotations=annotations)
        job["metadata"] |= {"labels": {"set": "same"}, "namespace": place}
        served.call(served.cluster.client.create_manifest(Job, job, place))
    waited = kcr("wait", "-A", "-l", "set=same")
    first, second = sorted(waited.lines)
    assert (waited.code, first) == (1, "default job.batch/same complete")
    assert second.startswith("team job.batch/same failed: BackoffLimitExceeded")
    assert sorted(kcr("wait", "job", "--all", "-n", "team").lines) == [second.removeprefix("team ")]
    assert kcr("wait", "job", "-l", "set=same").lines == ["job.batch/same complete"]
    job = manifest("alone")
    job["metadata"] |= {"labels": {"set": "alone"}, "namespace": "team"}
    served.call(served.cluster.client.create_manifest(Job, job, "team"))
    assert kcr("wait", "-A", "-l", "set=alone").lines == ["team job.batch/alone complete"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param((), 2, "name Jobs, as in job/NAME, or choose them with -l", id="neither"),
        pytest.param(("job/good", "-l", "a=b"), 2, "one of these", id="name-and-labels"),
        pytest.param(("job/good", "--all"), 2, "one of these", id="name-and-all"),
        pytest.param(("-l", "a=b", "--all"), 2, "one of these", id="labels-and-all"),
        pytest.param(("job/good", "-A"), 2, "-A needs -l", id="name-everywhere"),
        pytest.param(("-A",), 2, "choose them with -l", id="all-everywhere"),
        pytest.param(("-A", "-l", "set=none"), 1, "kcr: no Job in any namespace has the labels set=none", id="nowhere"),
        pytest.param(("-l", "set=none"), 1, "kcr: no Job in default has the labels set=none", id="no-such-job"),
        pytest.param(("--all", "-n", "kube-system"), 1, "kcr: no Job in kube-system exists", id="none-at-all"),
    ],
)
def test_jobs_that_are_not_chosen_are_an_error(kcr: Command, arguments: tuple[str, ...], code: int, words: str) -> None:
    waited = kcr("wait", *arguments)
    assert (waited.code, waited.out) == (code, "")
    assert words in waited.err


def test_one_failed_job_fails_the_command(kcr: Command) -> None:
    waited = kcr("wait", "job/good", "job/bad")
    good, bad = waited.lines
    assert (waited.code, good) == (1, "job.batch/good complete")
    assert bad.startswith("job.batch/bad failed: BackoffLimitExceeded: ")


def test_timeout_names_the_jobs_that_have_not_ended(kcr: Command) -> None:
    waited = kcr("wait", "job/endless", "job/bad", "--timeout", "1s")
    assert (waited.code, len(waited.lines)) == (124, 1)
    assert "kcr: timed out waiting for job.batch/endless: Running" in waited.err
    assert ": see what it waits for: kcr explain -n default job/endless\n" in waited.err


def test_control_characters_of_a_message_are_escaped(kcr: Command, served: ServedCluster) -> None:
    client = served.cluster.client
    served.call(finished(client, "bad"))
    patch = {"status": {"conditions": [{"type": "Failed", "message": "\x1b[2J forged"}]}}
    served.call(client.strategic_patch(Job, Key("default", "bad"), patch, subresource="status"))
    waited = kcr("wait", "job/bad")
    assert (waited.code, waited.lines) == (1, [r"job.batch/bad failed: BackoffLimitExceeded: \x1b[2J forged"])
    assert r"BackoffLimitExceeded: \x1b[2J forged" + "\n" in waited.err


def test_failed_job_shows_its_causes_and_the_last_output(
    kcr: Command, served: ServedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = "".join(f"{line}\n" for line in range(9)) + "boom \x1b[2J\n"
    monkeypatch.setattr(served.cluster.node, "on_run", lambda *_: RunResult(run_for=0, exit_code=4, logs=logs))
    job = manifest("spread", completionMode="Indexed", completions=2, parallelism=2, backoffLimit=1)
    served.call(create(served.cluster.client, job))
    waited = kcr("wait", "job/spread")
    digest = waited.err.splitlines()[-7:]
    assert (waited.code, len(waited.lines)) == (1, 1)
    counts = r"(\d) pods failed: \1 with exit code 4 \(index(es)? [01,]+\)"
    assert re.fullmatch(f"job.batch/spread: backoffLimit 1: {counts}", digest[0])
    assert digest[1].startswith("  pod spread-")
    assert digest[1].endswith("): container c: exit code 4; its last lines:")
    assert digest[2:] == ["  | 5", "  | 6", "  | 7", "  | 8", r"  | boom \x1b[2J"]
    explained = kcr("explain", "job/spread")
    assert re.search(counts, explained.out)
    assert re.search(r"last output of pod spread-\d-\w+: boom \\x1b\[2J\n", explained.out)


def test_absent_job_is_one_line(kcr: Command) -> None:
    waited = kcr("wait", "job/absent")
    assert (waited.code, waited.out) == (1, "")
    see = "name its namespace with -n, or see `kubectl get jobs -A`"
    assert waited.err == f'kcr: jobs.batch "absent" not found: {see}\n'
    assert kcr("wait", "job/goud").err == f'kcr: jobs.batch "goud" not found: is it good? Or {see}\n'
    assert "remedy      is it good?\n" in kcr("explain", "job", "goud").out
