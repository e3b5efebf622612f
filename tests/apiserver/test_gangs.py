"""Workloads and groups of pods of `scheduling.k8s.io/v1beta1`, and Jobs that say how they are scheduled.

Source: kubernetes/pkg/registry/scheduling/{workload,podgroup}/strategy.go; pkg/apis/batch/validation/validation.go;
keps/sig-apps/5547-integrate-workload-with-job, keps/sig-scheduling/4671-gang-scheduling.
"""

from collections.abc import AsyncIterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from kcr.testing import VirtualClock
from kcr_devcluster.apiserver.kinds.gang_strategies import SchedulingJobStrategy
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.api import Api
from tests.kit.manifests import cronjob, job, prepared, refused, refused_update

pytestmark = pytest.mark.kcr_virtual

ROOT = "/apis/scheduling.k8s.io/v1beta1/namespaces/default"
JOBS = SchedulingJobStrategy()
POLICY = "spec.scheduling.schedulingPolicy"


@pytest_asyncio.fixture
async def beta(kcr_clock: VirtualClock) -> AsyncIterator[Api]:
    async with EmbeddedCluster(
        clock=kcr_clock, random=Random(0), runtime=None, gangs=True, kubernetes_version="1.37"
    ) as cluster:
        yield Api(cluster.server)


def gang(size: Any = 2) -> Manifest:
    return {"gang": {} if size is None else {"minCount": size}}


def group(policy: Manifest, **spec: Any) -> Manifest:
    return {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy, **spec}}


def workload(*names: str, policy: Manifest | None = None) -> Manifest:
    templates = [{"name": name, "schedulingPolicy": policy or gang()} for name in names]
    return {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": templates}}


def asking(policy: Manifest | None = None, *, parallelism: int = 4, **scheduling: Any) -> Manifest:
    asked = {**({} if policy is None else {"schedulingPolicy": policy}), **scheduling}
    return job(parallelism=parallelism, completions=4, scheduling=asked)


async def test_version_is_served_with_its_kinds(beta: Api) -> None:
    listed = await beta.get("/apis/scheduling.k8s.io/v1beta1")
    assert {one["name"] for one in listed["resources"]} == {"podgroups", "podgroups/status", "workloads"}
    assert (await beta.call("GET", "/apis/scheduling.k8s.io/v1alpha2")).status == 404


async def test_group_gets_its_default_and_its_finalizer(beta: Api) -> None:
    made = await beta.post(f"{ROOT}/podgroups", group(gang()))
    assert made["spec"]["disruptionMode"] == {"single": {}}
    assert made["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]


async def test_group_without_pods_is_deleted_at_once(beta: Api, kcr_clock: VirtualClock) -> None:
    await beta.post(f"{ROOT}/podgroups", group(gang()))
    await beta.delete(f"{ROOT}/podgroups/g")
    await kcr_clock.advance(1)
    assert (await beta.call("GET", f"{ROOT}/podgroups/g")).status == 404


async def test_size_of_a_gang_may_change_and_nothing_else(beta: Api) -> None:
    made = await beta.post(f"{ROOT}/podgroups", group(gang()))
    made["spec"]["schedulingPolicy"]["gang"]["minCount"] = 3
    made = await beta.put(f"{ROOT}/podgroups/g", made)
    basic: Manifest = {"basic": {}}
    for policy in (gang(0), basic):
        changed = deepcopy(made)
        changed["spec"]["schedulingPolicy"] = policy
        assert (await beta.call("PUT", f"{ROOT}/podgroups/g", changed)).status == 422
    made["spec"]["priorityClassName"] = "high"
    assert "field is immutable" in (await beta.call("PUT", f"{ROOT}/podgroups/g", made)).body["message"]


async def test_size_of_a_template_may_change_and_nothing_else(beta: Api) -> None:
    made = await beta.post(f"{ROOT}/workloads", workload("a", "b"))
    made["spec"]["podGroupTemplates"][1]["schedulingPolicy"]["gang"]["minCount"] = 7
    made = await beta.put(f"{ROOT}/workloads/w", made)
    del made["spec"]["podGroupTemplates"][1]
    assert (await beta.call("PUT", f"{ROOT}/workloads/w", made)).status == 422


@pytest.mark.parametrize(
    ("plural", "made", "fault"),
    [
        pytest.param("podgroups", group({}), "must specify one of: `basic`, `gang`", id="no-policy"),
        pytest.param(
            "podgroups", group({**gang(), "basic": {}}), "must specify exactly one of: `basic`, `gang`", id="both"
        ),
        pytest.param("podgroups", group(gang(0)), "must be greater than or equal to 1", id="size-zero"),
        pytest.param("workloads", workload(), "spec.podGroupTemplates: Required value", id="no-templates"),
        pytest.param("workloads", workload("A"), "spec.podGroupTemplates[0].name: Invalid value", id="no-label"),
        pytest.param(
            "workloads", workload(*map(str, range(9))), "Too many: 9: must have at most 8 items", id="too-many"
        ),
    ],
)
async def test_workloads_and_groups_are_validated(beta: Api, plural: str, made: Manifest, fault: str) -> None:
    reply = await beta.call("POST", f"{ROOT}/{plural}", made)
    assert reply.status == 422
    assert fault in reply.body["message"]


@pytest.mark.parametrize(
    ("made", "faults"),
    [
        pytest.param(asking(gang(4)), [], id="gang"),
        pytest.param(asking(gang(None)), [], id="gang-of-all"),
        pytest.param(asking({"basic": {}}), [], id="basic"),
        pytest.param(asking(), [], id="no-policy"),
        pytest.param(
            asking({}), [f'{POLICY}: Invalid value: "{{}}": must specify one of: `basic`, `gang`'], id="empty-policy"
        ),
        pytest.param(
            asking(gang(0)),
            [f"{POLICY}.gang.minCount: Invalid value: 0: must be greater than or equal to 1"],
            id="size-zero",
        ),
        pytest.param(
            asking(gang(5)),
            [f"{POLICY}.gang.minCount: Invalid value: 5: must be less than or equal to spec.parallelism (4)"],
            id="more-than-there-are",
        ),
        pytest.param(
            asking(disruptionMode={"all": {}, "single": {}}),
            [
                'spec.scheduling.disruptionMode: Invalid value: "{single, all}": '
                "must specify exactly one of: `single`, `all`"
            ],
            id="two-modes",
        ),
        pytest.param(
            asking(resourceClaims=[{"name": str(number)} for number in range(5)]),
            ["spec.scheduling.resourceClaims: Too many: 5: must have at most 4 items"],
            id="too-many-claims",
        ),
        pytest.param(
            asking(schedulingConstraints={"topology": [{"key": "a"}, {"key": ""}]}),
            [
                "spec.scheduling.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
                "spec.scheduling.schedulingConstraints.topology[1].key: Required value",
            ],
            id="too-many-topologies",
        ),
    ],
)
def test_job_is_validated_for_how_it_is_scheduled(made: Manifest, faults: list[str]) -> None:
    assert refused(made, JOBS) == faults


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        pytest.param(asking(gang(2)), asking(gang(3)), True, id="size"),
        pytest.param(asking(gang(2)), asking(gang(None)), True, id="size-of-all"),
        pytest.param(asking(gang(2)), asking(gang(3), parallelism=5), True, id="size-with-parallelism"),
        pytest.param(asking(gang(2)), asking({"basic": {}}), False, id="policy"),
        pytest.param(asking(gang(2)), job(parallelism=4, completions=4), False, id="removed"),
        pytest.param(job(parallelism=4, completions=4), asking(gang(2)), False, id="added"),
        pytest.param(asking(gang(2)), asking(gang(2), disruptionMode={"all": {}}), False, id="other-field"),
    ],
)
def test_only_the_size_of_a_jobs_gang_may_change(before: Manifest, after: Manifest, allowed: bool) -> None:
    old, new = prepared(before, JOBS), prepared(after, JOBS)
    faults = refused_update(old, new, JOBS)
    assert [fault.partition(":")[0] for fault in faults] == ([] if allowed else ["spec.scheduling"])


async def test_field_is_dropped_where_the_feature_is_off(api: Api) -> None:
    made = await api.post("/apis/batch/v1/namespaces/default/jobs", asking(gang()))
    assert "scheduling" not in made["spec"]
    template = {"spec": asking(gang())["spec"]}
    cron = cronjob()
    cron["spec"]["jobTemplate"] = template
    del cron["metadata"]["uid"]
    made = await api.post("/apis/batch/v1/namespaces/default/cronjobs", cron)
    assert "scheduling" not in made["spec"]["jobTemplate"]["spec"]


async def test_field_is_kept_where_the_feature_is_on(beta: Api) -> None:
    made = await beta.post("/apis/batch/v1/namespaces/default/jobs", asking(gang()))
    assert made["spec"]["scheduling"] == {"schedulingPolicy": gang()}
