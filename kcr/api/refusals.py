"""Why an API server refuses to create objects: what its message tells of, and what a user can do about it."""

import re
import shlex
from typing import NamedTuple

# What a refusal's message has, the cause, and the remedy. The first that fits, the last one always. A remedy's fields
# are the groups of the pattern, and `namespace`, `resource`, `group` and `change`: how a user gets another template.
# Source of the messages: apiserver/pkg/admission/plugin/webhook/errors/statuserror.go and
# .../webhook/mutating/dispatcher.go, plugin/pkg/admission/{resourcequota,limitranger,serviceaccount,priority},
# pod-security-admission, apiserver/pkg/authorization.
_REFUSALS: tuple[tuple[str, str, str], ...] = (
    # Before the others: a webhook words its denial as it likes, also like another plugin.
    # This one is kcr's own, of objects that it has created and deleted again.
    (
        "was changed when it was created", "a mutating webhook or policy changes them, so that their owner loses them",
        "exempt them there, or let it keep labels, owner references and finalizers: "
        "kubectl get mutatingwebhookconfigurations,mutatingadmissionpolicies -o yaml",
    ),
    (
        'failed calling webhook "(?P<name>[^"]*)"', "an admission webhook does not answer",
        "mend its service, or let it fail (failurePolicy); where it is called: "
        "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o yaml",
    ),
    (
        'admission webhook "(?P<name>[^"]*)" denied', "an admission webhook denies them",
        "{change} that it accepts, or change its rules",
    ),
    (
        "exceeded quota: (?P<quota>[^,:]+)", "a ResourceQuota is used up",
        "delete what uses it up, or raise it: kubectl -n {namespace} describe resourcequota {quota}",
    ),
    (
        "failed quota: (?P<quota>[^,:]+)", "a ResourceQuota needs values that they lack",
        "{change} that states them, or set defaults with a LimitRange; "
        "the quota: kubectl -n {namespace} describe resourcequota {quota}",
    ),
    (
        "ValidatingAdmissionPolicy '(?P<name>[^']*)'", "a ValidatingAdmissionPolicy denies them",
        "{change} that it accepts; the policy: kubectl get validatingadmissionpolicy {name} -o yaml",
    ),
    (
        'violates PodSecurity "', "the namespace's Pod Security level denies them",
        "{change} that sets the securityContext as the message asks; "
        "the level: kubectl get namespace {namespace} --show-labels",
    ),
    (
        "looking up service account [^/ ]*/(?P<name>[^: ]+)", "their service account is not there",
        "create it, and they are created by themselves: kubectl -n {namespace} create serviceaccount {name}",
    ),
    (
        "no PriorityClass with name (?P<name>[^ ]+)", "their PriorityClass is not there",
        "create it, and they are created by themselves: kubectl create priorityclass {name} --value=1000",
    ),
    (
        "being terminated", "their namespace is being deleted",
        "use another namespace; what holds this one: kubectl get namespace {namespace} -o yaml",
    ),
    (
        'User "(?P<user>[^"]*)" cannot create resource', "their controller has no right to create them",
        "grant it: kubectl -n {namespace} create role {resource}-creator --verb=create --resource={resource}{group} && "
        "kubectl -n {namespace} create rolebinding {resource}-creator --role={resource}-creator --user={user}",
    ),
    (
        "(maximum|minimum) .* usage per", "a LimitRange does not allow what they ask for",
        "{change} within the limits: kubectl -n {namespace} describe limitrange",
    ),
    ("is invalid", "the template is invalid", "{change} that is valid"),
    ("is forbidden", "an admission rule of the API server denies them", "{change} that does as the message asks"),
    ("", "the API server refuses them", "see the message"),
)  # fmt: skip


class Refusal(NamedTuple):
    """Why objects are not created.

    Attributes:
        cause: The cause, as a clause that calls the objects `them`.
        remedy: What a user can do about it.
    """

    cause: str
    remedy: str


def refusal_of(message: str, *, namespace: str, resource: str, group: str = "", change: str) -> Refusal:
    """Return what a message tells of with which an API server refuses to create objects.

    Args:
        message: The message.
        namespace: Where the objects were to be.
        resource: Their plural.
        group: Their API group, for the command that grants the right to create them; empty for the core group.
        change: How a user gets another template, such as `create the Job anew with a template`.
    """
    fields = {"namespace": namespace, "resource": resource, "group": group and f".{group}", "change": change}
    for pattern, cause, remedy in _REFUSALS:
        if found := re.search(pattern, message):
            # Whoever may create events or webhooks chooses these words, and a user copies the command into a shell.
            words = {name: shlex.quote(word) for name, word in found.groupdict().items()}
            return Refusal(cause, remedy.format(**fields, **words))
    raise AssertionError("the last pattern fits everything")
