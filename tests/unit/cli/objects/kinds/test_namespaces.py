"""What holds a namespace up, of values: an API whose server does not answer."""

from datetime import timedelta

from kcr.api.core import Namespace, NamespaceStatus
from kcr.api.meta import Condition, Key, ObjectMeta
from kcr.cli.objects.explain import lines_of
from kcr.cli.objects.kinds.namespaces import explain_namespace, remaining_resources
from kcr.cli.objects.look import Shown
from kcr.cli.target import ObjectName
from tests.kit.builders import NOW
from tests.kit.explanations import screen, text

AGO = NOW - timedelta(seconds=90)


def namespace(*conditions: Condition, deleted: bool = True) -> Namespace:
    metadata = ObjectMeta(name="old", creation_timestamp=AGO, deletion_timestamp=AGO if deleted else None)
    phase = "Terminating" if deleted else "Active"
    return Namespace(metadata=metadata, status=NamespaceStatus(phase=phase, conditions=conditions))


def condition(kind: str, status: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=AGO)


FINE = condition("NamespaceDeletionContentFailure", "False", "ContentDeleted", "All content successfully deleted")
NO_DISCOVERY = condition(
    "NamespaceDeletionDiscoveryFailure", "True", "DiscoveryFailed",
    "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: "
    "metrics.k8s.io/v1beta1: the server is currently unable to handle the request",
)  # fmt: skip


def test_api_whose_server_does_not_answer_is_named() -> None:
    shown = Shown(explain_namespace(namespace(FINE, NO_DISCOVERY), (), NOW), (), ())
    assert screen(lines_of(ObjectName(Namespace, "old"), Key("", "old"), shown, NOW)) == text("""
        namespace old: has been terminating for 90s, and is stuck: DiscoveryFailed
          present     phase Terminating
          next        it is gone when all objects in it are
          why         NamespaceDeletionDiscoveryFailure, 90s ago: Discovery failed for some groups, 1
                        failing: unable to retrieve the complete list of server APIs:
                        metrics.k8s.io/v1beta1: the server is currently unable to handle the request
          remedy      the server of metrics.k8s.io/v1beta1 does not answer: mend it, or, if it is gone for
                        good:
                        kubectl delete apiservice v1beta1.metrics.k8s.io
                      see what is left in it:
                        kubectl api-resources --verbs=list --namespaced -o name |
                        xargs -n 1 kubectl -n old get --show-kind --ignore-not-found
    """)


def test_active_namespace_has_no_trouble() -> None:
    found = explain_namespace(namespace(deleted=False), (), NOW)
    assert found.headline == "has been Active for 90s, and nothing suggests trouble"


def test_remaining_resources_are_read_from_the_message() -> None:
    message = (
        "Some resources are remaining: configmaps. has 1 resource instances, websites.example.dev has 3 resource "
        "instances"
    )
    remaining = condition("NamespaceContentRemaining", "True", "SomeResourcesRemain", message)
    assert remaining_resources(namespace(remaining)) == ("configmaps", "websites.example.dev")
    assert remaining_resources(namespace(FINE)) == ()
