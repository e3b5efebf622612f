import pytest

from kcr.api.meta import ObjectMeta
from kcr.cluster.node.environment import field_of, hostname_of
from kcr.cluster.node.pods import RunnablePod, RunnableSpec

POD = RunnablePod(
    metadata=ObjectMeta(
        name="p", namespace="ns", uid="u", labels={"app": "pi"},
        annotations={"batch.kubernetes.io/job-completion-index": "3"},
    ),
    spec=RunnableSpec(service_account_name="robot"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['app']", "pi"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['batch.kubernetes.io/job-completion-index']", "3"),
        ("spec.nodeName", "n"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "127.0.0.1"),
        ("spec.unknown", ""),
    ],
)
def test_fields_of_the_pod_become_values(path: str, value: str) -> None:
    assert field_of(POD, path, "n", "127.0.0.1") == value


@pytest.mark.parametrize(
    ("name", "hostname", "expected"),
    [
        pytest.param("p", None, "p", id="name-of-the-pod"),
        pytest.param("p", "job-3", "job-3", id="hostname-of-the-spec"),
        pytest.param("a" * 62 + "-b", None, "a" * 62, id="cut-without-a-trailing-dash"),
    ],
)
def test_hostname_is_at_most_63_characters(name: str, hostname: str | None, expected: str) -> None:
    assert hostname_of(RunnablePod(metadata=ObjectMeta(name=name), spec=RunnableSpec(hostname=hostname))) == expected
