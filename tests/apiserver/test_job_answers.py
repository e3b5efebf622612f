"""What clients are told beside a Job: warnings, its row in a table, and what a DELETE does (batch-api §§6, 13, 14).

Source: kubernetes/pkg/registry/batch/job/{strategy,storage/storage}.go; pkg/api/pod/warnings.go;
pkg/printers/internalversion/printers.go.
"""

from typing import Any

import pytest

from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import TABLE, Api, job, owner, pod
from tests.kit.manifests import true

pytestmark = pytest.mark.kcr_virtual
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
POD = "spec.template.spec"
ORPHANS = (
    '299 - "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them '
    'or set propagationPolicy=Orphan to suppress this warning"'
)
T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"


def sent(pod: Any = None, *, name: str = "pi", container: Any = None, **spec: Any) -> dict[str, Any]:
    """A Job with more in its pod's spec, its container and its spec."""
    made = job(name)
    made["spec"] |= spec
    made["spec"]["template"]["spec"] |= pod or {}
    made["spec"]["template"]["spec"]["containers"][0] |= container or {}
    return made


def quoted(text: str) -> str:
    escaped = text.replace('"', '\\"')
    return f'299 - "{escaped}"'


@pytest.mark.parametrize(
    ("body", "warnings"),
    [
        pytest.param(sent(), [], id="nothing-to-say"),
        pytest.param(
            sent(name="pi.v2"),
            ["metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
             "a DNS label is recommended: [must not contain dots]"],
            id="name",
        ),
        pytest.param(
            sent(completionMode="Indexed", completions=100_001, parallelism=10_001),
            ["spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
             "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"],
            id="many-indexes",
        ),
        pytest.param(
            sent(completionMode="Indexed", completions=100_001, parallelism=10_000), [], id="many-indexes-a-few-at-once"
        ),
        pytest.param(sent(completions=100_001, parallelism=10_001), [], id="many-without-indexes"),
        pytest.param(
            sent({"terminationGracePeriodSeconds": -1}),
            [f"{POD}.terminationGracePeriodSeconds: must be >= 0; "
             "negative values are invalid and will be treated as 1"],
            id="negative-grace",
        ),
        pytest.param(
            sent(container={"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
            [f'{POD}.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'],
            id="hidden-variable",
        ),
        pytest.param(
            sent(container={"ports": [{"containerPort": 80}, {"containerPort": 80}]}),
            [f"{POD}.containers[0].ports[1]: duplicate port definition with {POD}.containers[0].ports[0]"],
            id="same-port",
        ),
        pytest.param(
            sent({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}),
            [f'{POD}.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'],
            id="old-node-label",
        ),
        pytest.param(
            sent(container={"resources": {"requests": {"memory": "1500m"}}}),
            [f'{POD}.containers[0].resources.requests[memory]: fractional byte value "1500m" is invalid, '
             "must be an integer"],
            id="part-of-a-byte",
        ),
    ],
)  # fmt: skip
async def test_accepted_job_is_warned_about(api: Api, body: Any, warnings: list[str]) -> None:
    # §6
    reply = await api.call("POST", JOBS, body)
    assert reply.status == 201, reply.body
    assert reply.headers.get("Warning", "") == ", ".join(map(quoted, warnings))


async def test_warnings_come_again_only_with_another_spec(api: Api) -> None:
    # §6: not with other metadata, and never with a status.
    body = sent({"terminationGracePeriodSeconds": -1}, name="pi.v2")
    await api.post(JOBS, body)
    merge = {"content_type": "application/merge-patch+json"}
    reply = await api.call("PATCH", f"{JOBS}/pi.v2", {"metadata": {"labels": {"a": "b"}}}, **merge)
    assert "Warning" not in reply.headers
    reply = await api.call("PATCH", f"{JOBS}/pi.v2", {"spec": {"parallelism": 2}}, **merge)
    assert reply.headers["Warning"].count("299 - ") == 1
    assert "negative values are invalid" in reply.headers["Warning"]
    reply = await api.call("PATCH", f"{JOBS}/pi.v2/status", {"status": {"active": 1}}, **merge)
    assert "Warning" not in reply.headers


@pytest.mark.parametrize(
    ("conditions", "going", "shown"),
    [
        pytest.param((), False, "Running", id="running"),
        pytest.param(("Suspended",), False, "Suspended", id="suspended"),
        pytest.param(("FailureTarget",), False, "FailureTarget", id="about-to-fail"),
        pytest.param(("SuccessCriteriaMet",), False, "SuccessCriteriaMet", id="about-to-complete"),
        pytest.param(("FailureTarget", "Suspended"), False, "Suspended", id="suspended-first"),
        pytest.param(("Suspended",), True, "Terminating", id="going-before-suspended"),
        pytest.param(("FailureTarget", "Failed"), True, "Failed", id="failed-before-going"),
        pytest.param(("SuccessCriteriaMet", "Complete"), True, "Complete", id="complete-before-going"),
    ],
)
async def test_status_column_shows_the_first_that_holds(
    api: Api, conditions: tuple[str, ...], going: bool, shown: str
) -> None:
    # §14
    made = job("pi", finalizers=["a.io/x"])
    await api.post(JOBS, made)
    status: dict[str, Any] = {"startTime": T0, "conditions": true(*conditions)}
    if "Complete" in conditions:
        status["completionTime"] = T1
    await api.patch(f"{JOBS}/pi/status", {"status": status})
    if going:
        await api.delete(f"{JOBS}/pi?propagationPolicy=Background")
    (row,) = (await api.get(JOBS, accept=TABLE))["rows"]
    assert row["cells"][1] == shown


@pytest.mark.parametrize(
    ("spec", "status", "shown"),
    [
        pytest.param({"completions": 5}, {"succeeded": 2}, "2/5", id="fixed-count"),
        pytest.param({"parallelism": 3}, {"succeeded": 1}, "1/1 of 3", id="work-queue"),
        pytest.param({"parallelism": 1}, {}, "0/1", id="work-queue-of-one"),
        pytest.param({"completions": 0}, {}, "0/0", id="nothing-to-do"),
    ],
)
async def test_completions_column_counts_what_is_wanted(api: Api, spec: Any, status: Any, shown: str) -> None:
    # §14
    await api.post(JOBS, sent(**spec))
    await api.patch(f"{JOBS}/pi/status", {"status": status})
    (row,) = (await api.get(JOBS, accept=TABLE))["rows"]
    assert row["cells"][2] == shown


async def test_duration_column_stops_with_completion_alone(api: Api, kcr_clock: VirtualClock) -> None:
    # §14: that of a failed Job grows on.
    ends = {"completes": ("SuccessCriteriaMet", "Complete"), "fails": ("FailureTarget", "Failed")}
    for name, conditions in ends.items():
        await api.post(JOBS, sent(name=name))
        time = {"completionTime": T1} if name == "completes" else {}
        status = {"startTime": T0, "conditions": true(*conditions), **time}
        await api.patch(f"{JOBS}/{name}/status", {"status": status})
    await api.post(JOBS, sent(name="waits"))
    await kcr_clock.advance(600)
    rows = (await api.get(JOBS, accept=TABLE))["rows"]
    assert {row["cells"][0]: row["cells"][3] for row in rows} == {"completes": "90s", "fails": "10m", "waits": ""}


@pytest.mark.collects
@pytest.mark.parametrize(
    ("query", "body", "warns", "kept"),
    [
        pytest.param("", b"", True, True, id="nothing-said"),
        pytest.param("", {"propagationPolicy": "Orphan"}, False, True, id="orphan"),
        pytest.param("", {"orphanDependents": True}, False, True, id="orphan-in-old-words"),
        pytest.param("", {"orphanDependents": False}, False, False, id="background-in-old-words"),
        pytest.param("?propagationPolicy=Background", b"", False, False, id="background"),
        pytest.param("", {"propagationPolicy": "Foreground"}, False, False, id="foreground"),
    ],
)
async def test_pods_go_with_their_job_or_stay(
    api: Api, kcr_clock: VirtualClock, query: str, body: Any, warns: bool, kept: bool
) -> None:
    # §13
    made = await api.post(JOBS, sent())
    await api.post(PODS, pod("p", ownerReferences=[owner(made, controller=True, blockOwnerDeletion=True)]))
    reply = await api.call("DELETE", f"{JOBS}/pi{query}", body)
    assert (reply.status, reply.headers.get("Warning", "")) == (200, ORPHANS if warns else "")
    await kcr_clock.settle()
    assert (await api.call("GET", f"{JOBS}/pi")).status == 404
    left = (await api.get(PODS))["items"]
    assert ["ownerReferences" in one["metadata"] for one in left] == ([False] if kept else [])


async def test_finalizer_decides_where_the_request_does_not(api: Api) -> None:
    # §13
    await api.post(JOBS, job("pi", finalizers=["a.io/x", "foregroundDeletion"]))
    marked = await api.delete(f"{JOBS}/pi")
    assert marked["metadata"]["finalizers"] == ["a.io/x", "foregroundDeletion"]
    assert (marked["metadata"]["deletionGracePeriodSeconds"], marked["metadata"]["generation"]) == (0, 2)


async def test_collection_of_jobs_warns_as_one_does(api: Api) -> None:
    # §6
    await api.post(JOBS, sent())
    assert (await api.call("DELETE", JOBS)).headers["Warning"] == ORPHANS


async def test_status_without_labels_leaves_those_of_the_template(api: Api) -> None:
    """Source: kubernetes/pkg/apis/batch/v1/defaults.go, SetDefaults_Job, which is applied to what is read as well."""
    created = await api.post(JOBS, job("pi"))
    bare = {"metadata": {"name": "pi"}, "spec": {"template": {"spec": created["spec"]["template"]["spec"]}}}
    await api.put(f"{JOBS}/pi/status", bare)
    read = await api.get(f"{JOBS}/pi")
    assert read["metadata"]["labels"] == created["metadata"]["labels"]
    assert await api.put(f"{JOBS}/pi", read) == read
