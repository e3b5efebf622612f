"""Which pod templates of Jobs are refused, and in which words (BA 7; rows 52-58 of its catalogue).

Source: kubernetes/pkg/apis/batch/validation/validation_test.go, pkg/apis/core/validation/validation_test.go.
"""

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import LABEL_MESSAGE, QUALIFIED_MESSAGE
from tests.kit.manifests import job, refused, with_container

POD = "spec.template.spec"


@pytest.mark.parametrize(
    ("pod", "faults"),
    [
        pytest.param({"containers": [{"name": "c"}]}, [f"{POD}.containers[0].image: Required value"], id="52-image"),
        pytest.param({"containers": [{"image": "i"}]}, [f"{POD}.containers[0].name: Required value"], id="52-name"),
        pytest.param(
            {"containers": [{"name": "A_b", "image": "i"}]},
            [f'{POD}.containers[0].name: Invalid value: "A_b": {LABEL_MESSAGE}'],
            id="53-malformed",
        ),
        pytest.param(
            {"containers": [{"name": "c", "image": "i"}] * 2},
            [f'{POD}.containers[1].name: Duplicate value: "c"'],
            id="53-repeated",
        ),
        pytest.param(
            {"initContainers": [{"name": "c", "image": "i"}]},
            [f'{POD}.initContainers[0].name: Duplicate value: "c"'],
            id="53-repeated-by-init-container",
        ),
        pytest.param(
            {"dnsPolicy": "Foo"},
            [
                f'{POD}.dnsPolicy: Unsupported value: "Foo": '
                'supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"'
            ],
            id="55",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 0},
            [f"{POD}.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
            id="56",
        ),
        pytest.param(
            {"ephemeralContainers": [{"name": "e", "image": "i"}]},
            [f"{POD}.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"],
            id="59",
        ),
        pytest.param(
            {"volumes": [{"name": "v"}, {"name": "v"}]}, [f'{POD}.volumes[1].name: Duplicate value: "v"'], id="volumes"
        ),
        pytest.param(
            {"initContainers": [{"name": "i", "image": "i", "lifecycle": {}}]},
            [
                f"{POD}.initContainers[0].lifecycle: Forbidden: "
                "may not be set for init containers without restartPolicy=Always"
            ],
            id="init-container-with-hooks",
        ),
        pytest.param(
            {"nodeSelector": {"a b": "c"}},
            [f'{POD}.nodeSelector: Invalid value: "a b": {QUALIFIED_MESSAGE}'],
            id="node-selector",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "effect": "Foo"}]},
            [
                f'{POD}.tolerations[0].effect: Unsupported value: "Foo": '
                'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
            ],
            id="toleration",
        ),
    ],
)  # fmt: skip
def test_pod_template_is_refused_in_upstreams_words(pod: Manifest, faults: list[str]) -> None:
    assert refused(job(pod=pod)) == faults


@pytest.mark.parametrize(
    ("container", "faults"),
    [
        pytest.param(
            {"imagePullPolicy": "Maybe"},
            ['imagePullPolicy: Unsupported value: "Maybe": supported values: "Always", "IfNotPresent", "Never"'],
            id="54",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, ['volumeMounts[0].name: Not found: "v"'], id="57"
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
            ['resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
            id="58",
        ),
        pytest.param(
            {"ports": [{"containerPort": 0}, {"containerPort": 70000}]},
            [
                "ports[0].containerPort: Required value",
                "ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            ],
            id="ports",
        ),
        pytest.param({"env": [{"value": "x"}]}, ["env[0].name: Required value"], id="env"),
        pytest.param(
            {"terminationMessagePolicy": "Foo"},
            [
                'terminationMessagePolicy: Unsupported value: "Foo": '
                'supported values: "FallbackToLogsOnError", "File"'
            ],
            id="termination-message-policy",
        ),
    ],
)  # fmt: skip
def test_container_is_refused_in_upstreams_words(container: Manifest, faults: list[str]) -> None:
    assert refused(with_container(**container)) == [f"{POD}.containers[0].{fault}" for fault in faults]
