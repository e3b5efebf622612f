"""What metadata, generation and conditions tell of an object of any kind."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kcr.api.explanation import Explanation, unfinalize
from kcr.api.meta import ObjectMeta
from kcr.api.resources import ResourceType
from kcr.api.unstructured import unstructured
from kcr.cli.objects.kinds.read import explain_object

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WEBSITE = unstructured("example.dev/v1", "Website", plural="websites")


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def condition(kind: str, status: str, reason: str = "", message: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": ago(90), **fields,
    }  # fmt: skip


def explained(status: Any = None, spec: Any = None, **metadata: Any) -> Explanation:
    made = {"metadata": {"name": "shop", "namespace": "default", "creationTimestamp": ago(300), **metadata}}
    made |= {"spec": spec if spec is not None else {"image": "a"}} | ({} if status is None else {"status": status})
    return explain_object(WEBSITE.of(made), NOW)


@pytest.mark.parametrize(
    ("status", "metadata", "headline", "reasons"),
    [
        pytest.param(
            {"conditions": [condition("Ready", "False", "NoImage", "not found")]}, {},
            "has not been ready for 90s: NoImage: not found",
            ("condition Ready is False, 90s ago: NoImage: not found",), id="not-ready",
        ),
        pytest.param({"conditions": [condition("Ready", "True")]}, {}, "has been ready for 90s", (), id="ready"),
        pytest.param(
            {"conditions": [condition("Ready", "True"), condition("Stalled", "True", "Bad", "no")]}, {},
            "is stalled: Bad: no", ("condition Stalled is True, 90s ago: Bad: no",), id="stalled",
        ),
        pytest.param(
            {"observedGeneration": 3, "conditions": [condition("Ready", "True", observedGeneration=3)]},
            {"generation": 4}, "waits for its controller, which has not observed generation 4",
            (
                "status.observedGeneration is 3: the status is that of an earlier spec",
                "condition Ready is True, 90s ago, of generation 3",
            ), id="unobserved",
        ),
        pytest.param(
            {"conditions": [condition("Synced", "False", "Error")]}, {}, "Synced has been False for 90s: Error",
            ("condition Synced is False, 90s ago: Error",), id="other-condition",
        ),
        pytest.param(
            {"conditions": [condition("MemoryPressure", "False"), condition("Progressing", "True", "Rolling")]}, {},
            "is progressing: Rolling", (), id="progressing",
        ),
        pytest.param({"phase": "Pending", "message": "no node"}, {}, "is in phase Pending: no node", (), id="phase"),
        pytest.param(None, {}, "has no status: no controller has written one in 5m", (), id="no-status"),
        pytest.param({"url": "x"}, {}, "has existed for 5m, and nothing suggests trouble", (), id="unknown-status"),
        pytest.param({"conditions": "many"}, {}, "has existed for 5m, and nothing suggests trouble", (), id="no-list"),
        pytest.param(
            {"conditions": [condition("Ready", "True")]},
            {"deletionTimestamp": ago(60), "finalizers": ["example.dev/dns", "b"]},
            "has been terminating for 60s, and waits for its finalizers example.dev/dns, b", (),
            id="finalizers",
        ),
    ],
)  # fmt: skip
def test_headline_is_the_one_thing_to_know(
    status: Any, metadata: dict[str, Any], headline: str, reasons: tuple[str, ...]
) -> None:
    found = explained(status, **metadata)
    assert (found.headline, found.reasons) == (headline, reasons)


def test_finalizer_of_kubernetes_names_how_to_see_what_uses_the_object() -> None:
    found = explained(None, deletionTimestamp=ago(60), finalizers=["kubernetes.io/pvc-protection"])
    assert found.remedies[0].startswith("see what uses it, such as a pod that has ended: kubectl -n default describe ")


def test_counts_and_generations_are_wanted_and_present() -> None:
    status = {"observedGeneration": 2, "replicas": 3, "readyReplicas": 1}
    found = explained(status, {"replicas": 3}, generation=2)
    assert found.wanted == "3 replicas, generation 2"
    assert found.present == "observed generation 2, replicas 3, readyReplicas 1"


def test_owner_is_named_with_the_command_that_explains_it() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-1", "uid": "u", "controller": True}
    found = explained({"phase": "Running"}, ownerReferences=[owner])
    assert found.reasons == ("it is controlled by ReplicaSet shop-1: kcr explain replicaset/shop-1",)


def test_names_are_quoted_in_commands() -> None:
    name = "$(reboot)"
    held = ResourceType("rbac.authorization.k8s.io", "v1", "Role", "roles")
    command = unfinalize(held, ObjectMeta(name=name, namespace="default"))
    assert "patch roles.rbac.authorization.k8s.io '$(reboot)' --type=merge" in command
    owner = {"apiVersion": "v1", "kind": "Site", "name": name, "uid": "u", "controller": True}
    assert explained(ownerReferences=[owner]).reasons[-1].endswith(": kcr explain 'site/$(reboot)'")
