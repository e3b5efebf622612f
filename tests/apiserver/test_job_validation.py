"""Which Jobs are refused, and in which words (BA 7; rows 4-59 of its catalogue).

Source: kubernetes/pkg/apis/batch/validation/validation_test.go, pkg/registry/batch/job/strategy_test.go.
"""

from copy import deepcopy
from typing import Any

import pytest

from kcr_devcluster.apiserver.kinds.strategy import UndecodableError
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import QUALIFIED_MESSAGE, SUBDOMAIN_MESSAGE
from tests.kit.manifests import JOBS, UID, indexed, job, prepared, refused, stored, with_container

RESTARTS = 'valid values: "OnFailure", "Never"'
POD = "spec.template.spec"
NEGATIVE = "must be greater than or equal to 0"
RULE = "spec.podFailurePolicy.rules[0]"
CODES = {"operator": "In", "values": [1]}


def with_rule(**rule: Any) -> Manifest:
    return job(podFailurePolicy={"rules": [{"action": "Count", "onExitCodes": CODES, **rule}]})


def with_codes(**codes: Any) -> Manifest:
    return with_rule(onExitCodes={**CODES, **codes})


def with_pattern(**pattern: Any) -> Manifest:
    return with_rule(onExitCodes=None, onPodConditions=[{"type": "Ready", **pattern}])


def with_success(**rule: Any) -> Manifest:
    return indexed(successPolicy={"rules": [rule]})


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(job(completions=0, parallelism=0), id="nothing-to-do"),
        pytest.param(job(activeDeadlineSeconds=0, ttlSecondsAfterFinished=0), id="zero-times"),
        pytest.param(job(parallelism=7, completions=2), id="parallelism-above-completions"),
        pytest.param(job(completions=2**31 - 1), id="many-completions-without-indexes"),
        pytest.param(job(podFailurePolicy={"rules": []}), id="failure-policy-without-rules"),
        pytest.param(with_codes(operator="NotIn", values=[0, 1]), id="zero-with-not-in"),
        pytest.param(with_codes(values=[-1, 1]), id="negative-exit-code"),
        pytest.param(indexed(backoffLimitPerIndex=0, maxFailedIndexes=0), id="no-index-may-fail"),
        pytest.param(indexed(backoffLimitPerIndex=1, pod={"restartPolicy": "OnFailure"}), id="per-index-on-failure"),
        pytest.param(with_success(succeededCount=0), id="success-count-zero"),
        pytest.param(with_success(succeededIndexes=""), id="success-indexes-empty"),
        pytest.param(with_success(succeededIndexes="0-2", succeededCount=3), id="success-both"),
        pytest.param(job(managedBy="acme.io/foo"), id="managed-by-another"),
        pytest.param(job(managedBy="kubernetes.io/job-controller"), id="managed-by-reserved"),
        pytest.param(indexed(parallelism=100_000, completions=2**31 - 1), id="many-indexes"),
        pytest.param(with_container(image=" "), id="blank-image"),
        pytest.param(
            job(pod={"initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always"}]}), id="sidecar"
        ),
    ],
)
def test_unusual_job_is_accepted(manifest: Manifest) -> None:
    assert refused(manifest) == []


@pytest.mark.parametrize("member", ["parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"])
def test_negative_number_is_refused(member: str) -> None:
    # BA 15.12
    sent: Any = {member: -1}
    assert refused(job(**sent)) == [f"spec.{member}: Invalid value: -1: {NEGATIVE}"]


@pytest.mark.parametrize(
    ("manifest", "faults"),
    [
        pytest.param(
            {"metadata": {"name": "pi", "uid": UID}},
            [f"{POD}.containers: Required value", f"{POD}.restartPolicy: Required value: {RESTARTS}"],
            id="4-no-spec",
        ),
        pytest.param(
            job(pod={"restartPolicy": None}), [f"{POD}.restartPolicy: Required value: {RESTARTS}"], id="5-absent"
        ),
        pytest.param(
            job(pod={"restartPolicy": "Always"}), [f"{POD}.restartPolicy: Required value: {RESTARTS}"], id="5-always"
        ),
        pytest.param(
            job(pod={"restartPolicy": "Sometimes"}),
            [
                f'{POD}.restartPolicy: Unsupported value: "Sometimes": '
                'supported values: "Always", "OnFailure", "Never"',
                f'{POD}.restartPolicy: Unsupported value: "Sometimes": supported values: "OnFailure", "Never"',
            ],
            id="6",
        ),
        pytest.param(
            job(pod={"restartPolicy": "OnFailure"}, podFailurePolicy={"rules": []}),
            [
                f'{POD}.restartPolicy: Invalid value: "OnFailure": '
                'only "Never" is supported when podFailurePolicy is specified'
            ],
            id="7",
        ),
        pytest.param(
            job("a" * 64),
            [f'spec.template.labels: Invalid value: "{"a" * 64}": must be no more than 63 bytes'] * 2,
            id="8",
        ),
        pytest.param(
            indexed(name="a.b", completions=10),
            ['metadata.name: Invalid value: "a.b": will not able to create pod with invalid DNS label: a.b-9'],
            id="9",
        ),
        pytest.param(
            job(activeDeadlineSeconds=-1),
            [f"spec.activeDeadlineSeconds: Invalid value: -1: {NEGATIVE}"],
            id="12-deadline",
        ),
        pytest.param(
            job(backoffLimitPerIndex=1),
            ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
            id="13",
        ),
        pytest.param(
            job(maxFailedIndexes=1),
            [
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
            ],
            id="14",
        ),
        pytest.param(
            indexed(completions=2, backoffLimitPerIndex=1, maxFailedIndexes=3),
            ["spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions"],
            id="15",
        ),
        pytest.param(
            indexed(completions=100_001, backoffLimitPerIndex=1),
            ["spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"],
            id="16",
        ),
        pytest.param(
            indexed(completions=100_001, backoffLimitPerIndex=1, parallelism=10_001, maxFailedIndexes=10_001),
            [
                f"spec.{member}: Invalid value: 10001: must be less than or equal to 10000 "
                "when completions are above 100000 and used with backoff limit per index"
                for member in ("parallelism", "maxFailedIndexes")
            ],
            id="17",
        ),
        pytest.param(
            indexed(completions=None),
            ["spec.completions: Required value: when completion mode is Indexed"],
            id="18",
        ),
        pytest.param(
            indexed(parallelism=100_001),
            [
                "spec.parallelism: Invalid value: 100001: "
                "must be less than or equal to 100000 when completion mode is Indexed"
            ],
            id="19",
        ),
        pytest.param(job(managedBy=""), ["spec.managedBy: Required value"], id="20"),
        pytest.param(
            job(managedBy="foo"),
            ['spec.managedBy: Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")'],
            id="21",
        ),
        pytest.param(
            job(managedBy="Foo_bar.io/x"),
            [f'spec.managedBy: Invalid value: "Foo_bar.io": {SUBDOMAIN_MESSAGE}'],
            id="22",
        ),
        pytest.param(
            job(managedBy="foo.io/x y"),
            [
                'spec.managedBy: Invalid value: "x y": '
                r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"
            ],
            id="23",
        ),
        pytest.param(
            job(managedBy=f"foo.io/{'x' * 57}"),
            ["spec.managedBy: Too long: may not be more than 63 bytes"],
            id="24",
        ),
        pytest.param(
            job(completionMode="Foo"),
            ['spec.completionMode: Unsupported value: "Foo": supported values: "NonIndexed", "Indexed"'],
            id="25",
        ),
        pytest.param(
            job(podReplacementPolicy="Foo"),
            ['spec.podReplacementPolicy: Unsupported value: "Foo": supported values: "Failed", "TerminatingOrFailed"'],
            id="26",
        ),
        pytest.param(
            job(podReplacementPolicy="TerminatingOrFailed", podFailurePolicy={"rules": []}),
            ['spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"'],
            id="27",
        ),
        pytest.param(
            job(podFailurePolicy={"rules": [{"action": "Count", "onExitCodes": CODES}] * 21}),
            ["spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"],
            id="28",
        ),
        pytest.param(
            with_rule(action=None),
            [f'{RULE}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'],
            id="29",
        ),
        pytest.param(
            with_rule(action="Nope"),
            [
                f'{RULE}.action: Unsupported value: "Nope": '
                'supported values: "Count", "FailIndex", "FailJob", "Ignore"'
            ],
            id="30",
        ),
        pytest.param(
            with_rule(action="FailIndex"),
            [f'{RULE}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'],
            id="31",
        ),
        pytest.param(
            with_rule(onPodConditions=[{"type": "Ready"}]),
            [f"{RULE}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"],
            id="32-both",
        ),
        pytest.param(
            with_rule(onExitCodes=None),
            [f"{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"],
            id="32-none",
        ),
        pytest.param(
            with_codes(operator=None),
            [f'{RULE}.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]'],
            id="33-absent",
        ),
        pytest.param(
            with_codes(operator="Foo"),
            [f'{RULE}.onExitCodes.operator: Unsupported value: "Foo": supported values: "In", "NotIn"'],
            id="33-unknown",
        ),
        pytest.param(
            with_codes(values=[]),
            [f"{RULE}.onExitCodes.values: Invalid value: []: at least one value is required"],
            id="34-empty",
        ),
        pytest.param(
            with_codes(values=None),
            [f"{RULE}.onExitCodes.values: Invalid value: null: at least one value is required"],
            id="34-absent",
        ),
        pytest.param(
            with_codes(values=[0]),
            [f"{RULE}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"],
            id="35",
        ),
        pytest.param(
            with_codes(values=[1, 1]), [f"{RULE}.onExitCodes.values[1]: Duplicate value: 1"], id="36-repeated"
        ),
        pytest.param(
            with_codes(values=[3, 1]),
            [f"{RULE}.onExitCodes.values: Invalid value: [3,1]: must be ordered"],
            id="36-unordered",
        ),
        pytest.param(
            with_codes(values=list(range(1, 257))),
            [f"{RULE}.onExitCodes.values: Too many: 256: must have at most 255 items"],
            id="37",
        ),
        pytest.param(
            with_codes(containerName="zzz"),
            [
                f'{RULE}.onExitCodes.containerName: Invalid value: "zzz": '
                "must be one of the container or initContainer names in the pod template"
            ],
            id="38",
        ),
        pytest.param(
            with_pattern(type="a b"),
            [f'{RULE}.onPodConditions[0].type: Invalid value: "a b": {QUALIFIED_MESSAGE}'],
            id="39-malformed",
        ),
        pytest.param(
            with_pattern(type=""),
            [
                f'{RULE}.onPodConditions[0].type: Invalid value: "": name part must be non-empty',
                f'{RULE}.onPodConditions[0].type: Invalid value: "": {QUALIFIED_MESSAGE}',
            ],
            id="39-empty",
        ),
        pytest.param(
            with_pattern(status="true"),
            [
                f'{RULE}.onPodConditions[0].status: Unsupported value: "true": '
                'supported values: "False", "True", "Unknown"'
            ],
            id="40",
        ),
        pytest.param(
            job(successPolicy={"rules": [{"succeededCount": 1}]}),
            ['spec.successPolicy: Invalid value: {"rules":[{"succeededCount":1}]}: requires indexed completion mode'],
            id="41",
        ),
        pytest.param(
            indexed(successPolicy={"rules": []}),
            [
                "spec.successPolicy.rules: Required value: "
                "at least one rules must be specified when the successPolicy is specified"
            ],
            id="42",
        ),
        pytest.param(
            with_success(),
            [
                "spec.successPolicy.rules[0]: Required value: "
                "at least one of succeededCount or succeededIndexes must be specified"
            ],
            id="43",
        ),
        pytest.param(
            with_success(succeededCount=6),
            [
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 6: "
                "must be less than or equal to 5 (the number of specified completions)"
            ],
            id="44",
        ),
        pytest.param(
            with_success(succeededCount=3, succeededIndexes="0-1"),
            [
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 "
                "(the number of indexes in the specified succeededIndexes field)"
            ],
            id="45",
        ),
        pytest.param(
            with_success(succeededIndexes="5"),
            [
                'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "5": '
                'error parsing succeededIndexes: too large index: "5"'
            ],
            id="46",
        ),
        pytest.param(
            indexed(completions=None, successPolicy={"rules": [{"succeededCount": 1}]}),
            ["spec.completions: Required value: when completion mode is Indexed"],
            id="upstream-falls-over-this",
        ),
        pytest.param(
            job(manualSelector=True),
            [
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
            ],
            id="48",
        ),
        pytest.param(
            job(manualSelector=True, selector={"matchExpressions": [{"key": "a", "operator": "Foo"}]}),
            [
                'spec.selector.matchExpressions[0].operator: Invalid value: "Foo": '
                "not a valid selector operator"
            ],
            id="51",
        ),
        pytest.param(
            job(selector={"matchExpressions": [{"key": "a", "operator": "Foo"}]}),
            [
                'spec.selector.matchExpressions[0].operator: Invalid value: "Foo": '
                "not a valid selector operator"
            ],
            id="invalid-selector-without-manual-mode",
        ),
    ],
)  # fmt: skip
def test_job_is_refused_in_upstreams_words(manifest: Manifest, faults: list[str]) -> None:
    assert refused(manifest) == faults


def test_selector_of_the_user_needs_the_manual_mode() -> None:
    # BA 15.47
    faults = JOBS.validate(prepared(job(selector={"matchLabels": {"a": "b"}})))
    assert [fault.field for fault in faults] == ["spec.selector", "spec.template.metadata.labels"]
    labels = f'{{"matchLabels":{{"a":"b","batch.kubernetes.io/controller-uid":"{UID}"}}}}'
    assert faults[0].message == f"Invalid value: {labels}: `selector` not auto-generated"
    assert faults[1].message.endswith(": `selector` does not match template `labels`")


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        pytest.param("controller-uid", UID, id="49"),
        pytest.param("batch.kubernetes.io/job-name", "pi", id="50"),
    ],
)
def test_labels_of_another_job_are_refused(label: str, wanted: str) -> None:
    (fault,) = JOBS.validate(prepared(job(labels={label: "old"})))
    assert fault.field == f"spec.template.metadata.labels[{label}]"
    assert fault.message.endswith(f": must be '{wanted}'")


def test_job_posted_again_as_downloaded_is_refused() -> None:
    # BA 5: one error per stale label, and the selector
    again = deepcopy(stored(job()))
    again["metadata"] = {"name": "pi", "namespace": "default", "uid": "another"}
    assert [fault.field for fault in JOBS.validate(prepared(again))] == [
        "spec.template.metadata.labels[controller-uid]",
        "spec.template.metadata.labels[batch.kubernetes.io/controller-uid]",
        "spec.selector",
    ]


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        pytest.param(
            job(parallelism="3"),
            "json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32",
            id="60",
        ),
        pytest.param(
            job(parallelism=1.5),
            "json: cannot unmarshal number 1.5 into Go struct field JobSpec.spec.parallelism of type int32",
            id="61-fraction",
        ),
        pytest.param(
            job(parallelism=3000000000),
            "json: cannot unmarshal number 3000000000 into Go struct field JobSpec.spec.parallelism of type int32",
            id="61-range",
        ),
        pytest.param(
            with_container(env=[{"name": "a", "value": 1}]),
            "json: cannot unmarshal number into Go struct field "
            "EnvVar.spec.template.spec.containers.env.value of type string",
            id="62",
        ),
        pytest.param(
            with_container(resources={"limits": {"cpu": "abc"}}),
            r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="63",
        ),
        pytest.param(
            job(suspend="yes"),
            "json: cannot unmarshal string into Go struct field JobSpec.spec.suspend of type bool",
            id="flag",
        ),
    ],
)
def test_wrong_type_is_no_job_at_all(manifest: Manifest, text: str) -> None:
    # BA 15.B
    with pytest.raises(UndecodableError) as caught:
        JOBS.default(manifest)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert str(caught.value) == f'Job in version "v1" cannot be handled as a Job: {text}'
