from datetime import UTC, datetime, timedelta

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.app.checks import Finding, Wanted, check_cluster, missing_rights, skew_finding, version_finding
from kcr.client import Client
from kcr.controller import rights
from tests.kit.clocks import FixedClock
from tests.kit.scripted_transport import Say, Script, failure

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
VERSION = Say({"gitVersion": "v1.36.2"})
DATED = Say({"gitVersion": "v1.36.2"}, headers={"date": "Thu, 01 Jan 2026 12:00:20 GMT"})


def review(*, allowed: bool) -> Say:
    return Say({"status": {"allowed": allowed}}, status=201)


def jobs(manager: str, ago: float) -> Say:
    time = (NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {
        "name": "pi", "namespace": "web",
        "managedFields": [{"manager": manager, "subresource": "status", "time": time, "operation": "Update"}],
    }  # fmt: skip
    return Say({"items": [{"metadata": metadata}]})


async def found(*answers: Say, takes_over: bool = False, wanted: frozenset[object] = frozenset()) -> dict[str, Finding]:
    client = Client(Script(VERSION, DATED, *answers))
    findings = await check_cluster(client, Wanted(wanted, takes_over=takes_over), FixedClock(NOW))  # type: ignore[arg-type]  # of rights
    return {finding.check: finding for finding in findings}


@pytest.mark.parametrize(
    ("version", "shares_jobs", "words"),
    [
        pytest.param("v1.36.2", True, "", id="new"),
        pytest.param("v1.32.0+kcr", True, "", id="embedded"),
        pytest.param("v1.31.4-eks-7f9249a", False, "", id="taken-over"),
        pytest.param("v1.31.4", True, "drops spec.managedBy", id="shared"),
        pytest.param("v1.29.1", False, "older than what kcr supports", id="old"),
        pytest.param("unknown", True, "drops spec.managedBy", id="odd"),
    ],
)
def test_server_version_has_to_suffice(version: str, shares_jobs: bool, words: str) -> None:
    finding = version_finding(version, Wanted(frozenset(), shares_jobs=shares_jobs))
    assert finding.is_wrong is bool(words)
    assert words in finding.text


@pytest.mark.parametrize(
    ("skew", "words"),
    [(0.4, ""), (-4.0, ""), (None, ""), (20.0, "20 s behind the server"), (-90.0, "90 s ahead of the server")],
)
def test_clock_that_is_off_is_named(skew: float | None, words: str) -> None:
    finding = skew_finding(skew)
    assert finding.is_wrong is bool(words)
    assert words in finding.text


def test_missing_rights_are_one_line() -> None:
    missing = sorted(rights(Pod, "create", "delete") | rights(Job, "patch", subresource="status"))
    assert missing_rights(missing, "") == "cannot create, delete pods; patch jobs/status.batch at the cluster scope"
    assert missing_rights(missing[:1], "web") == 'cannot create pods in the namespace "web"'


@pytest.mark.kcr_virtual
async def test_each_right_is_asked_for() -> None:
    findings = await found(review(allowed=True), review(allowed=False), wanted=frozenset(rights(Pod, "create", "get")))
    assert findings["rights"].is_wrong
    assert findings["rights"].text.startswith("cannot get pods at the cluster scope: grant them")
    assert findings["clock"].text.startswith("20 s behind")


@pytest.mark.kcr_virtual
async def test_rights_of_election_are_those_of_its_namespace() -> None:
    rules = Say({"status": {"resourceRules": [], "incomplete": True}}, status=201)
    answers = [rules, review(allowed=True)] + [review(allowed=False)] * 5
    client = Client(Script(VERSION, DATED, *answers))
    wanted = Wanted(rights(Pod, "get"), election_namespace="ops")
    (finding,) = [found for found in await check_cluster(client, wanted, FixedClock(NOW)) if found.check == "rights"]
    assert finding.text.startswith(
        'cannot create, patch events; create, get, update leases.coordination.k8s.io in the namespace "ops": grant them'
    )


@pytest.mark.kcr_virtual
async def test_server_without_access_reviews_is_no_failure() -> None:
    findings = await found(failure(404), wanted=frozenset(rights(Pod, "get")))
    assert findings["rights"] == Finding("rights", False, "not told: the server answers no SelfSubjectAccessReview")


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("manager", "ago", "is_wrong"),
    [("kube-controller-manager", 12, True), ("kube-controller-manager", 3600, False), ("kcr", 12, False)],
)
async def test_other_controller_of_jobs_is_named(manager: str, ago: float, is_wrong: bool) -> None:
    findings = await found(jobs(manager, ago), failure(404, "NotFound"), takes_over=True)
    assert findings["controllers"].is_wrong is is_wrong
    if is_wrong:
        assert (
            "has written the status of Job web/pi 12 s ago: start it with --controllers=*,-job-"
            in findings["controllers"].text
        )


@pytest.mark.kcr_virtual
async def test_lease_of_another_controller_is_a_hint() -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"renewTime": "2026-01-01T11:59:59.000000Z"},
    }
    findings = await found(Say({"items": []}), Say(lease), takes_over=True)
    assert not findings["controllers"].is_wrong
    assert "kube-controller-manager runs" in findings["controllers"].text
