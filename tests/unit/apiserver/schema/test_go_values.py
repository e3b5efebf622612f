from typing import Any

import msgspec
import pytest

from kcr_devcluster.apiserver.schema.go_values import as_go, difference, go_value


@pytest.mark.parametrize(
    ("of", "path", "value", "shown"),
    [
        pytest.param(
            "core.v1.Service", "spec.ports[1]", {"port": 80, "protocol": "TCP"},
            '{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}', id="item",
        ),
        pytest.param(
            "batch.v1.Job", "spec.template.spec.securityContext.seccompProfile.localhostProfile",
            {"type": "Unconfined", "localhostProfile": "a"}, '{"Type":"Unconfined","LocalhostProfile":"a"}',
            id="value-around-the-field",
        ),
        pytest.param(
            "apps.v1.Deployment", "spec.selector", {"matchLabels": {"b": "1", "a": "<"}, "matchExpressions": []},
            r'{"matchLabels":{"a":"\u003c","b":"1"},"matchExpressions":[]}', id="names-of-json",
        ),
        pytest.param(
            "core.v1.Pod", "metadata.ownerReferences", [{"uid": "u", "kind": "A", "apiVersion": "v1"}],
            '[{"apiVersion":"v1","kind":"A","name":"","uid":"u"}]', id="list",
        ),
        pytest.param("core.v1.Pod", "nope[0].x", {"b": {"d": 1, "c": 2}, "a": 1}, '{"a":1,"b":{"c":2,"d":1}}', id="no"),
        pytest.param(
            "core.v1.Container", "resources", {"limits": {"cpu": "1"}},
            '{"Limits":{"cpu":"1"},"Requests":null,"Claims":null}', id="map",
        ),
    ],
)  # fmt: skip
def test_value_is_shown_as_the_internal_type_of_its_path(of: str, path: str, value: Any, shown: str) -> None:
    assert bytes(as_go(of, path, value)).decode() == shown


def test_fields_of_a_pod_that_go_keeps_elsewhere_are_shown_there() -> None:
    found = go_value("core.v1.PodSpec", {"hostNetwork": True, "securityContext": {"runAsUser": 1}})
    assert found["SecurityContext"]["HostNetwork"] is True
    assert found["SecurityContext"]["HostPID"] is False
    assert found["SecurityContext"]["RunAsUser"] == 1
    assert "HostNetwork" not in found


def test_metadata_are_shown_among_the_fields_of_a_template() -> None:
    found = go_value("core.v1.PodTemplateSpec", {"metadata": {"labels": {"a": "b"}}, "spec": {}})
    assert list(found) == ["labels", "Spec"]


def test_difference_has_three_lines_around_each_change() -> None:
    assert difference("core.v1.PodSpec", {}, {"nodeName": "n"}) == (
        '@@ -10,7 +10,7 @@\n  "NodeSelector": null,\n  "ServiceAccountName": "",\n'
        '  "AutomountServiceAccountToken": null,\n- "NodeName": "",\n+ "NodeName": "n",\n'
        '  "SecurityContext": {\n   "HostNetwork": false,\n   "HostPID": false,\n'
    )


def test_value_that_is_shown_already_stays_so() -> None:
    assert msgspec.json.encode([as_go("core.v1.Taint", "", {"key": "a"})]) == (
        b'[{"Key":"a","Value":"","Effect":"","TimeAdded":null}]'
    )
