"""What the server fills in on Jobs (BA 3.1, 3.3, 5; JC 2.1, 2.2).

Source: kubernetes/pkg/apis/batch/v1/defaults_test.go, pkg/registry/batch/job/strategy_test.go.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.manifests import JOBS, UID, job, prepared, refused, stored

GENERATED = {
    "controller-uid": UID,
    "job-name": "pi",
    "batch.kubernetes.io/controller-uid": UID,
    "batch.kubernetes.io/job-name": "pi",
}


def test_minimal_job_is_stored_with_every_default() -> None:
    # BA 3.1
    assert stored(job()) == {
        "metadata": {"name": "pi", "namespace": "default", "uid": UID, "labels": GENERATED},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
            "template": {
                "metadata": {"labels": GENERATED},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "busybox",
                            "imagePullPolicy": "Always",
                            "resources": {},
                            "terminationMessagePath": "/dev/termination-log",
                            "terminationMessagePolicy": "File",
                        }
                    ],
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 30,
                    "dnsPolicy": "ClusterFirst",
                    "securityContext": {},
                    "schedulerName": "default-scheduler",
                },
            },
        },
        "status": {},
    }


def test_defaulting_twice_changes_nothing_more() -> None:
    once = stored(job(labels={"app": "pi"}))
    twice = stored(once)
    assert twice == once


@pytest.mark.parametrize(
    ("sent", "parallelism", "completions"),
    [
        pytest.param({}, 1, 1, id="neither"),
        pytest.param({"parallelism": 3}, 3, None, id="work-queue"),
        pytest.param({"completions": 4}, 1, 4, id="completions-alone"),
        pytest.param({"parallelism": 0}, 0, None, id="paused"),
        pytest.param({"parallelism": None, "completions": None}, 1, 1, id="nulls-are-nothing"),
        pytest.param({"parallelism": 2, "completions": 5}, 2, 5, id="both"),
    ],
)
def test_counts_default_by_what_was_sent(sent: Manifest, parallelism: int, completions: int | None) -> None:
    spec = prepared(job(**sent))["spec"]
    assert (spec["parallelism"], spec.get("completions")) == (parallelism, completions)


@pytest.mark.parametrize(
    ("sent", "member", "value"),
    [
        pytest.param({"backoffLimit": 0}, "backoffLimit", 0, id="zero-backoff-limit-stays"),
        pytest.param({"backoffLimitPerIndex": 1}, "backoffLimit", 2147483647, id="no-limit-beside-per-index"),
        pytest.param({"podFailurePolicy": {"rules": []}}, "podReplacementPolicy", "Failed", id="with-failure-policy"),
        pytest.param({"manualSelector": None}, "manualSelector", False, id="null-selector-mode"),
        pytest.param({"suspend": True}, "suspend", True, id="suspend-stays"),
    ],
)
def test_default_follows_from_other_members(sent: Manifest, member: str, value: Any) -> None:
    assert prepared(job(**sent))["spec"][member] == value


def test_condition_pattern_without_status_matches_true() -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    spec = prepared(job(podFailurePolicy={"rules": rules}))["spec"]
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_user_labels_on_template_are_kept_and_copied() -> None:
    made = stored(job(labels={"app": "pi"}))
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "pi", **GENERATED}
    assert made["metadata"]["labels"] == {"app": "pi", **GENERATED}


def test_job_with_own_labels_is_left_alone() -> None:
    sent = job(labels={"app": "pi"})
    sent["metadata"]["labels"] = {"mine": "yes"}
    assert stored(sent)["metadata"]["labels"] == {"mine": "yes"}


def test_labels_removed_from_job_come_back_on_read() -> None:
    # BA 2.3
    read = stored(job())
    del read["metadata"]["labels"]
    JOBS.default(read)
    assert read["metadata"]["labels"] == GENERATED


def test_status_sent_with_create_is_dropped() -> None:
    assert prepared({**job(), "status": {"active": 3}})["status"] == {}


def test_manual_selector_generates_nothing() -> None:
    made = stored(job(labels={"a": "b"}, manualSelector=True, selector={"matchLabels": {"a": "b"}}))
    assert made["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    assert made["spec"]["template"]["metadata"]["labels"] == made["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("labels", "spec"),
    [
        pytest.param({"x": "y"}, {}, id="none-sent"),
        pytest.param(None, {"selector": {"matchLabels": {"controller-uid": UID}}}, id="legacy-uid-guessed"),
        pytest.param({"a": "b"}, {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}, id="own"),
        pytest.param(None, {"manualSelector": True, "selector": {}}, id="everything"),
        pytest.param(
            {"controller-uid": "old"},
            {"manualSelector": True, "selector": {"matchLabels": {"controller-uid": "old"}}},
            id="pods-of-an-orphaned-job",
        ),
    ],
)
def test_selector_that_cannot_overlap_unawares_is_accepted(labels: Manifest | None, spec: Manifest) -> None:
    # BA 5
    assert refused(job(labels=labels, **spec)) == []


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        pytest.param("busybox", "Always", id="no-tag"),
        pytest.param("busybox:latest", "Always", id="latest"),
        pytest.param("busybox:1.36", "IfNotPresent", id="tag"),
        pytest.param(f"busybox@sha256:{'a' * 64}", "IfNotPresent", id="digest"),
        pytest.param("host:5000/x", "Always", id="port-is-no-tag"),
        pytest.param("host:5000/x:1", "IfNotPresent", id="port-and-tag"),
        pytest.param("BusyBox", "IfNotPresent", id="unparsable"),
    ],
)
def test_pull_policy_follows_from_image_reference(image: str, policy: str) -> None:
    made = prepared(job(pod={"containers": [{"name": "c", "image": image}]}))
    assert made["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_volumes_probes_and_ports_get_their_defaults() -> None:
    # BA 3.3
    container = {
        "name": "c",
        "image": "busybox",
        "ports": [{"containerPort": 80}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "readinessProbe": {"grpc": {"port": 9}},
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    }
    volumes = [
        {"name": "a"},
        {"name": "b", "secret": {"secretName": "s"}},
        {"name": "c", "hostPath": {"path": "/x"}},
        {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "e", "emptyDir": {"sizeLimit": "1024Mi"}},
    ]
    spec = prepared(job(pod={"containers": [container], "volumes": volumes}))["spec"]["template"]["spec"]
    made = spec["containers"][0]
    timing = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    assert made["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert made["livenessProbe"] == {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, **timing}
    assert made["readinessProbe"] == {"grpc": {"port": 9, "service": ""}, **timing}
    assert made["env"][0]["valueFrom"]["fieldRef"] == {"apiVersion": "v1", "fieldPath": "metadata.name"}
    assert spec["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
        {"name": "c", "hostPath": {"path": "/x", "type": ""}},
        {
            "name": "d",
            "projected": {
                "defaultMode": 420,
                "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
            },
        },
        {"name": "e", "emptyDir": {"sizeLimit": "1Gi"}},
    ]


def test_requests_are_not_copied_from_limits_in_templates() -> None:
    # BA 3.4: only pods themselves get them
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1000m", "memory": 1024}}}
    made = prepared(job(pod={"containers": [container]}))["spec"]["template"]["spec"]["containers"][0]
    assert made["resources"] == {"limits": {"cpu": "1", "memory": "1024"}}


def test_old_and_new_service_account_names_are_kept_equal() -> None:
    spec = prepared(job(pod={"serviceAccount": "robot"}))["spec"]["template"]["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("robot", "robot")


@pytest.mark.parametrize(
    ("name", "count"),
    [pytest.param("pi", 0, id="label"), pytest.param("pi.v2", 1, id="with-dots")],
)
def test_name_that_is_no_dns_label_is_warned_about(name: str, count: int) -> None:
    # BA 6
    warnings = JOBS.warnings(prepared(job(name)), None)
    assert len(warnings) == count
    assert all(warning.startswith("metadata.name: this is used in Pod names and hostnames") for warning in warnings)


def test_warnings_on_spec_come_again_only_when_it_changes() -> None:
    # BA 6
    old = stored(job(pod={"terminationGracePeriodSeconds": -1}))
    words = "must be >= 0; negative values are invalid and will be treated as 1"
    again = f"spec.template.spec.terminationGracePeriodSeconds: {words}"
    assert JOBS.warnings(old, None) == [again]
    assert JOBS.warnings(old, old) == []
    assert JOBS.warnings({**old, "spec": {**old["spec"], "parallelism": 2}}, old) == [again]
