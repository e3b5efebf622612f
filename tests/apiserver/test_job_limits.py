"""The limits of a Job's parts that the catalogue has no row for (batch-api §§7.3 to 7.6).

Source: kubernetes/pkg/apis/batch/validation/validation_test.go.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import LABEL_MESSAGE, QUALIFIED_MESSAGE, SUBDOMAIN_MESSAGE
from tests.kit.manifests import indexed, job, refused

CODES = {"operator": "In", "values": [1]}
POD = "spec.template.spec"
# 65,536 bytes: five, then six for each number but the last.
LONGEST = ",".join(str(number) for number in range(9_999, 20_922))


def policy(**rule: Any) -> Manifest:
    return {"rules": [rule]}


@pytest.mark.parametrize(
    "member",
    [
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
        "backoffLimitPerIndex", "maxFailedIndexes",
    ],
)  # fmt: skip
def test_no_count_of_an_indexed_job_is_negative(member: str) -> None:
    # Row 15.12
    counts = {"backoffLimitPerIndex": 1, member: -1}
    assert f"spec.{member}: Invalid value: -1: must be greater than or equal to 0" in refused(indexed(**counts))


@pytest.mark.parametrize(
    ("manifest", "faults"),
    [
        pytest.param(
            indexed(completions=200_000, backoffLimitPerIndex=1, maxFailedIndexes=100_001),
            [
                "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
                "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 10000 "
                "when completions are above 100000 and used with backoff limit per index",
            ],
            id="failed-indexes-at-scale",
        ),
        pytest.param(
            indexed(completions=100_000, backoffLimitPerIndex=1, parallelism=10_001), [], id="just-not-at-scale"
        ),
        pytest.param(
            indexed(completions=100_001, backoffLimitPerIndex=1, parallelism=10_000, maxFailedIndexes=10_000), [],
            id="at-scale",
        ),
        pytest.param(
            indexed(completions=100_000, backoffLimitPerIndex=1, maxFailedIndexes=100_000), [],
            id="every-index-may-fail",
        ),
        pytest.param(indexed(parallelism=100_000), [], id="all-indexes-at-once"),
        pytest.param(indexed(name="a" * 63, completions=0, parallelism=0), [], id="no-index-no-room-for-it"),
        pytest.param(
            indexed(name="a" * 62, completions=1, parallelism=1),
            [
                f'metadata.name: Invalid value: "{"a" * 62}": '
                f"will not able to create pod with invalid DNS label: {'a' * 62}-0"
            ],
            id="no-room-for-the-only-index",
        ),
        pytest.param(
            indexed(name=f"a.{'b' * 60}", completions=10),
            [
                f'metadata.name: Invalid value: "a.{"b" * 60}": '
                f"will not able to create pod with invalid DNS label: a.{'b' * 60}-9"
            ],
            id="name-with-two-faults-is-one",
        ),
        pytest.param(indexed(completions=None, parallelism=None), [], id="no-count-means-one-index"),
        pytest.param(
            job(podFailurePolicy=policy(action="Count", onPodConditions=[{"type": f"T{n}"} for n in range(21)])),
            ["spec.podFailurePolicy.rules[0].onPodConditions: Too many: 21: must have at most 20 items"],
            id="condition-patterns",
        ),
        pytest.param(
            job(podFailurePolicy=policy(action="Count", onExitCodes={**CODES, "values": [*range(1, 256)]})), [],
            id="all-the-values",
        ),
        pytest.param(
            job(podFailurePolicy=policy(action="Count", onPodConditions=[{"type": f"T{n}"} for n in range(20)])), [],
            id="all-the-patterns",
        ),
        pytest.param(
            job(podFailurePolicy={"rules": [{"action": "Count", "onExitCodes": CODES}] * 20}), [], id="all-the-rules"
        ),
        pytest.param(
            indexed(successPolicy={"rules": [{"succeededCount": 5}]}), [], id="every-success"
        ),
        pytest.param(
            job(
                podFailurePolicy=policy(action="Ignore", onExitCodes={**CODES, "containerName": "setup"}),
                pod={"initContainers": [{"name": "setup", "image": "i"}]},
            ),
            [], id="rule-for-an-init-container",
        ),
        pytest.param(
            indexed(backoffLimitPerIndex=0, podFailurePolicy=policy(action="FailIndex", onExitCodes=CODES)), [],
            id="fail-index-with-its-limit",
        ),
        pytest.param(
            indexed(successPolicy={"rules": [{"succeededCount": 1}] * 21}),
            ["spec.successPolicy.rules: Too many: 21: must have at most 20 items"],
            id="success-rules",
        ),
        pytest.param(indexed(successPolicy={"rules": [{"succeededCount": 1}] * 20}), [], id="all-the-success-rules"),
        pytest.param(
            indexed(successPolicy={"rules": [{"succeededCount": -1}]}),
            ["spec.successPolicy.rules[0].succeededCount: Invalid value: -1: must be greater than or equal to 0"],
            id="success-count",
        ),
        pytest.param(
            indexed(completions=30_000, successPolicy={"rules": [{"succeededIndexes": LONGEST}]}), [],
            id="longest-text-of-indexes",
        ),
        pytest.param(
            indexed(successPolicy={"rules": [{"succeededIndexes": f"{'0' * 4300}1"}]}), [], id="zeros-in-front"
        ),
        pytest.param(
            indexed(successPolicy={"rules": [{"succeededIndexes": f"0-{2**63}"}]}),
            [f'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0-{2**63}": error parsing '
             f'succeededIndexes: cannot convert string to integer for index: "{2**63}"'],
            id="index-of-more-than-64-bits",
        ),
        pytest.param(
            indexed(completions=20_000, successPolicy={"rules": [
                {"succeededIndexes": ",".join(str(n) for n in range(20_000))},
            ]}),
            ["spec.successPolicy.rules[0].succeededIndexes: Too long: may not be more than 65536 bytes"],
            id="success-indexes",
        ),
        pytest.param(
            job(managedBy=f"foo.io/{'x' * 56}"), [], id="longest-manager"
        ),
    ],
)  # fmt: skip
def test_limit_holds_at_its_border(manifest: Manifest, faults: list[str]) -> None:
    assert refused(manifest) == faults


@pytest.mark.parametrize(
    ("pod", "faults"),
    [
        pytest.param({"hostname": "a.b"}, [f'{POD}.hostname: Invalid value: "a.b": must not contain dots'], id="host"),
        pytest.param(
            {"subdomain": "A"}, [f'{POD}.subdomain: Invalid value: "A": {LABEL_MESSAGE}'], id="subdomain"
        ),
        pytest.param(
            {"priorityClassName": "A"}, [f'{POD}.priorityClassName: Invalid value: "A": {SUBDOMAIN_MESSAGE}'],
            id="priority-class",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "a b"}]},
            [f'{POD}.schedulingGates[0]: Invalid value: "a b": {QUALIFIED_MESSAGE}'], id="gate",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "a"}, {"name": "a"}, {}]},
            [
                f'{POD}.schedulingGates[1]: Duplicate value: "a"',
                f"{POD}.schedulingGates[2]: Required value: must not be empty",
            ],
            id="gates",
        ),
        pytest.param({"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}, [], id="directives"),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Foo"}, {"value": "x"}]},
            [
                f'{POD}.tolerations[0].operator: Unsupported value: "Foo": supported values: "Equal", "Exists"',
                f'{POD}.tolerations[1].operator: Invalid value: "": operator must be Exists when `key` is empty, '
                'which means "match all values and all keys"',
            ],
            id="tolerations",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 2**31},
            [f"{POD}.activeDeadlineSeconds: Invalid value: 2147483648: must be between 1 and 2147483647, inclusive"],
            id="deadline",
        ),
        pytest.param({"terminationGracePeriodSeconds": -1}, [], id="negative-grace-is-warned-about-alone"),
        pytest.param(
            {"initContainers": [
                {"name": "i", "image": "i", "restartPolicy": "Always", "livenessProbe": {"grpc": {"port": 1}}},
            ]},
            [], id="sidecar-with-a-probe",
        ),
        pytest.param(
            {"initContainers": [{"name": "i", "image": "i", "readinessProbe": {"exec": {}}}]},
            [
                f"{POD}.initContainers[0].readinessProbe: Forbidden: "
                "may not be set for init containers without restartPolicy=Always"
            ],
            id="init-container-with-a-probe",
        ),
    ],
)  # fmt: skip
def test_pod_template_is_held_to_its_subset(pod: Manifest, faults: list[str]) -> None:
    # §7.6
    assert refused(job(pod=pod)) == faults


def test_labels_and_annotations_of_template_have_no_metadata_in_their_path() -> None:
    # §7.6
    manifest = job(labels={"a b": "c"})
    manifest["spec"]["template"]["metadata"]["annotations"] = {"x y": "z"}
    assert [fault.partition(": ")[0] for fault in refused(manifest)] == [
        "spec.template.labels",
        "spec.template.annotations",
    ]
