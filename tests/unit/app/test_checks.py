from datetime import UTC, datetime, timedelta
from random import Random
from urllib.parse import parse_qs

import pytest

import kcr
from kcr.api.batch import CronJob, Job
from kcr.api.core import Namespace, Pod
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr.api.meta import Key, ObjectMeta
from kcr.api.scheduling import PodGroup
from kcr.api.slots import uid_selector
from kcr.app.checks import (
    Finding,
    Wanted,
    ask_version,
    check_cluster,
    filter_finding,
    missing_rights,
    skew_finding,
    version_finding,
)
from kcr.client import Client
from kcr.controller import rights
from kcr.errors import ForbiddenError, TransportError
from kcr.informer import Selection
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.clocks import FixedClock
from tests.kit.custom_resources import definition, version
from tests.kit.scripted_transport import Say, Script, failure

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STATUS = rights(Job, "patch", subresource="status")
JOBS, CRONJOBS = rights(Job, "list"), rights(CronJob, "list")
DATED = Say({"gitVersion": "v1.36.2"}, headers={"date": "Thu, 01 Jan 2026 12:00:20 GMT"})


class Widget(kcr.Resource, api_version="ex.io/v1", plural="widgets"):
    status: dict[str, str] = {}


def review(*, allowed: bool) -> Say:
    return Say({"status": {"allowed": allowed}}, status=201)


def written(manager: str, ago: float) -> Say:
    time = (NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {
        "name": "pi", "namespace": "web",
        "managedFields": [{"manager": manager, "subresource": "status", "time": time, "operation": "Update"}],
    }  # fmt: skip
    return Say({"items": [{"metadata": metadata}]})


async def found(*answers: Say, wanted: Wanted) -> dict[str, Finding]:
    findings = await check_cluster(Client(Script(DATED, *answers)), wanted, FixedClock(NOW))
    return {finding.check: finding for finding in findings}


@pytest.mark.parametrize(
    ("version", "takes_over", "words"),
    [
        pytest.param("v1.36.2", False, "", id="new"),
        pytest.param("v1.36.0+kcr", False, "", id="embedded"),
        pytest.param("v1.31.4-eks-7f9249a", True, "", id="taken-over"),
        pytest.param("v1.31.4", False, "drops spec.managedBy", id="shared"),
        pytest.param("v1.30.9", True, "older than what kcr supports", id="old"),
        pytest.param("unknown", False, "drops spec.managedBy", id="odd"),
        pytest.param("v0.0.0-master+8e16b12fda5b", False, "", id="built from source"),
    ],
)
def test_server_version_has_to_suffice(version: str, takes_over: bool, words: str) -> None:
    finding = version_finding(version, Wanted(STATUS, takes_over=takes_over))
    assert finding.is_wrong is bool(words)
    assert words in finding.text


def test_jobs_are_shared_by_their_controller_only() -> None:
    assert not version_finding("v1.31.4", Wanted(rights(Pod, "get", "list"))).is_wrong


def test_server_newer_than_tested_is_mentioned() -> None:
    finding = version_finding("v1.99.0", Wanted(STATUS))
    assert not finding.is_wrong
    assert finding.text.startswith("server v1.99.0, newer than v1.")


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
    findings = await found(
        review(allowed=True), review(allowed=False), wanted=Wanted(rights(Pod, "create", "get"), names="job,web:setup")
    )
    assert findings["rights"].is_wrong
    remedy = "grant them with the role that `kcr rbac generate --controllers job,web:setup` writes"
    assert findings["rights"].text == f"cannot get pods at the cluster scope: {remedy}"
    assert findings["clock"].text.startswith("20 s behind")


@pytest.mark.kcr_virtual
async def test_rights_of_election_are_those_of_its_namespace() -> None:
    rules = Say({"status": {"resourceRules": [], "incomplete": True}}, status=201)
    answers = [review(allowed=False), rules, review(allowed=True)] + [review(allowed=False)] * 5
    findings = await found(*answers, wanted=Wanted(rights(Pod, "get"), lease=Key("ops", "kcr")))
    assert findings["namespace"] == Finding("namespace", False, 'not told: "ops" cannot be read')
    assert findings["rights"].text.startswith(
        'cannot create, patch events; create, get, update leases.coordination.k8s.io in the namespace "ops": grant them'
    )


@pytest.mark.kcr_virtual
async def test_server_without_access_reviews_is_no_failure() -> None:
    findings = await found(failure(404), wanted=Wanted(rights(Pod, "get")))
    assert findings["rights"] == Finding("rights", False, "not told: the server answers no SelfSubjectAccessReview")


@pytest.mark.kcr_virtual
@pytest.mark.parametrize("wanted", [Wanted(frozenset(), "web"), Wanted(frozenset(), lease=Key("web", "kcr"))])
async def test_namespace_that_is_missing_is_named(kcr_cluster: EmbeddedCluster, wanted: Wanted) -> None:
    async def finding() -> Finding:
        return next(
            one for one in await check_cluster(kcr_cluster.client, wanted, FixedClock(NOW)) if one.check == "namespace"
        )

    missing = await finding()
    assert missing.is_wrong
    assert missing.text.startswith('"web" does not exist, n')
    await kcr_cluster.client.create(Namespace(metadata=ObjectMeta(name="web")))
    assert await finding() == Finding("namespace", False, '"web" exists')


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("manager", "ago", "is_wrong"),
    [("kube-controller-manager", 12, True), ("kube-controller-manager", 3600, False), ("kcr", 12, False)],
)
async def test_other_controller_of_jobs_is_named(manager: str, ago: float, is_wrong: bool) -> None:
    answers = review(allowed=True), written(manager, ago), review(allowed=True), failure(404, "NotFound")
    findings = await found(*answers, wanted=Wanted(JOBS, takes_over=True))
    assert findings["controllers"].is_wrong is is_wrong
    if is_wrong:
        assert (
            "has written the status of Job web/pi 12 s ago: start it with --controllers=*,-job-"
            in findings["controllers"].text
        )


@pytest.mark.kcr_virtual
async def test_version_and_clock_take_one_request() -> None:
    script = Script(DATED)
    server = await ask_version(Client(script), FixedClock(NOW))
    assert (server.version, server.skew_seconds, script.targets) == ("v1.36.2", 20, ["/version"])
    # What is known is not asked again.
    await check_cluster(Client(script), Wanted(frozenset()), FixedClock(NOW), server=server)
    assert script.targets.count("/version") == 1


@pytest.mark.kcr_virtual
async def test_version_is_asked_again_after_a_broken_connection() -> None:
    script = Script(TransportError("cut"), TransportError("cut"), DATED)
    assert (await ask_version(Client(script), FixedClock(NOW))).version == "v1.36.2"
    with pytest.raises(ForbiddenError):
        await ask_version(Client(Script(failure(403))), FixedClock(NOW))


@pytest.mark.kcr_virtual
async def test_other_controller_of_cronjobs_is_named_in_its_namespace() -> None:
    script = Script(DATED, review(allowed=True), written("kube-controller-manager", 3))
    wanted = Wanted(CRONJOBS, "web", takes_over=True)
    script.answers.insert(1, review(allowed=False))
    findings = await check_cluster(Client(script), wanted, FixedClock(NOW))
    assert "has written the status of CronJob web/pi 3 s ago" in findings[-1].text
    assert script.targets[-1] == "/apis/batch/v1/namespaces/web/cronjobs?limit=100"


@pytest.mark.kcr_virtual
async def test_jobs_that_cannot_be_listed_tell_nothing() -> None:
    findings = await found(review(allowed=False), failure(403, "Forbidden"), wanted=Wanted(JOBS, takes_over=True))
    assert findings["controllers"] == Finding("controllers", False, "not told: Jobs cannot be listed")


@pytest.mark.kcr_virtual
async def test_lease_of_another_controller_is_a_hint() -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"renewTime": "2026-01-01T11:59:59.000000Z"},
    }
    answers = review(allowed=True), Say({"items": []}), review(allowed=True), Say(lease)
    findings = await found(*answers, wanted=Wanted(JOBS, takes_over=True))
    assert not findings["controllers"].is_wrong
    assert "kube-controller-manager runs" in findings["controllers"].text


@pytest.mark.kcr_virtual
async def test_lease_that_may_not_be_read_is_said() -> None:
    answers = review(allowed=True), Say({"items": []}), review(allowed=False)
    findings = await found(*answers, wanted=Wanted(JOBS, takes_over=True))
    assert findings["controllers"].text.endswith("its lease in kube-system cannot be read")


@pytest.mark.kcr_virtual
async def test_lease_that_cannot_be_read_ends_no_check() -> None:
    answers = review(allowed=True), Say({"items": []}), review(allowed=True), failure(403, "Forbidden")
    findings = await found(*answers, wanted=Wanted(JOBS, takes_over=True))
    assert findings["controllers"].text.endswith("its lease in kube-system cannot be read")


@pytest.mark.kcr_virtual
async def test_kinds_that_are_not_served_are_named(kcr_cluster: EmbeddedCluster) -> None:
    absent = {PodGroup.resource, Pod.resource._replace(plural="prods")}
    wanted = Wanted(frozenset(), kinds=frozenset(absent | {Job.resource, Pod.resource}))
    findings = await check_cluster(kcr_cluster.client, wanted, FixedClock(NOW))
    (finding,) = [one for one in findings if one.check == "kinds"]
    assert finding.is_wrong
    assert finding.text.startswith("not served: prods of v1, podgroups of scheduling.k8s.io/v1alpha2: install")


@pytest.mark.kcr_virtual
async def test_kind_of_another_version_is_named_with_those_that_are_served(kcr_cluster: EmbeddedCluster) -> None:
    wanted = Wanted(frozenset(), kinds=frozenset({Job.resource._replace(version="v2")}))
    findings = await check_cluster(kcr_cluster.client, wanted, FixedClock(NOW))
    (finding,) = [one for one in findings if one.check == "kinds"]
    assert finding.text.startswith("not served: jobs of batch/v2 (but Job of batch/v1): install")


@pytest.mark.kcr_virtual
async def test_status_that_a_definition_does_not_have_is_named(kcr_cluster: EmbeddedCluster) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await kcr_cluster.client.create_manifest(CustomResourceDefinition, definition(version("v1", schema)))
    wanted = Wanted(rights(Widget, "patch", subresource="status"), kinds=frozenset({Widget.resource}))
    findings = await check_cluster(kcr_cluster.client, wanted, FixedClock(NOW))
    remedy = "add `subresources: {status: {}}` to this version in the CustomResourceDefinition"
    assert Finding("kinds", True, f"cannot be written: widgets/status of ex.io/v1: {remedy}") in findings


@pytest.mark.kcr_virtual
async def test_kinds_that_are_served_are_well(kcr_cluster: EmbeddedCluster) -> None:
    wanted = Wanted(frozenset(), kinds=frozenset({Job.resource, Pod.resource}))
    findings = await check_cluster(kcr_cluster.client, wanted, FixedClock(NOW))
    assert Finding("kinds", False, "all are served") in findings


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(("has_feature", "words"), [(True, "server filters"), (False, "does not filter")])
async def test_server_shows_whether_it_filters_by_shard(kcr_clock: VirtualClock, has_feature: bool, words: str) -> None:
    async with EmbeddedCluster(
        clock=kcr_clock, random=Random(0), runtime=None, sharded_list_and_watch=has_feature
    ) as cluster:
        finding = await filter_finding(cluster.client, [Selection(Job)])
    assert words in finding.text
    assert not finding.is_wrong


@pytest.mark.kcr_virtual
async def test_kind_that_cannot_be_listed_leaves_the_filter_unknown() -> None:
    script = Script(failure(403, "Forbidden"), failure(404, "NotFound"))
    finding = await filter_finding(Client(script), [Selection(Job), Selection(Pod)])
    assert finding.text.startswith("not told")
    queries = [parse_qs(target.partition("?")[2]) for target in script.targets]
    assert [(query["limit"], query["shardSelector"]) for query in queries] == [(["1"], [uid_selector(range(32))])] * 2
