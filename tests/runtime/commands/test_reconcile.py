"""`kcr reconcile`: the annotation by which controllers reconcile an object."""

import pytest

from kcr.api.batch import Job
from kcr.api.core import Namespace
from kcr.api.meta import Key, Resource
from kcr.controller import reconcile_requested_at
from tests.kit.harness import create, manifest
from tests.kit.served_cluster import ServedCluster
from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


def requested(served: ServedCluster, kind: type[Resource], key: Key) -> str:
    return reconcile_requested_at(served.call(served.cluster.client.get(kind, key)))


def test_each_request_has_a_value_of_its_own(kcr: Command, served: ServedCluster) -> None:
    served.call(create(served.cluster.client, manifest("pi", suspend=True)))
    values = []
    for _ in range(2):
        printed = kcr("reconcile", "job/pi")
        values.append(requested(served, Job, Key("default", "pi")))
        assert printed == (0, f"job.batch/pi annotated: kcr.dev/reconcile-at={values[-1]}\n", "")
    assert values[0] < values[1]


def test_kind_without_namespace_is_found_by_its_short_name(kcr: Command, served: ServedCluster) -> None:
    assert kcr("reconcile", "ns/kube-system").code == 0
    assert requested(served, Namespace, Key("", "kube-system"))


@pytest.mark.parametrize(
    ("name", "resource", "hint"),
    [
        ("job/absent", "jobs.batch", "name its namespace with -n, or see `kubectl get jobs -A`"),
        ("cm/absent", "configmaps", "name its namespace with -n, or see `kubectl get configmaps -A`"),
        ("ns/absent", "namespaces", "see `kubectl get namespaces`"),
    ],
)
def test_absent_object_is_one_line_with_the_list_of_its_kind(name: str, resource: str, hint: str, kcr: Command) -> None:
    printed = kcr("reconcile", name)
    assert (printed.code, printed.out, printed.err) == (1, "", f'kcr: {resource} "absent" not found: {hint}\n')
