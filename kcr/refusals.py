"""Causes of refused creates, parsed from the API server's message, with the user's remedies."""

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

# Source: apiserver/pkg/endpoints/handlers/responsewriters/errors.go, forbiddenMessage.
_DENIAL = (
    'User "(?P<user>[^"]*)" cannot (?P<verb>[a-z]+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    '(?: in the namespace "(?P<namespace>[^"]*)")?'
)

# The topic of a refusal, the pattern of its message, the cause, and the remedy. The first match counts, the last one
# always matches. A remedy's fields are the groups of the pattern, and `namespace`, `resource` and `change`: how a user
# gets another template. That of a missing right is made below.
# Source of the messages: apiserver/pkg/admission/plugin/webhook/errors/statuserror.go and
# .../webhook/mutating/dispatcher.go, plugin/pkg/admission/{resourcequota,limitranger,serviceaccount,priority},
# pod-security-admission, apiserver/pkg/authorization.
_REFUSALS: tuple[tuple[str, str, str, str], ...] = (
    # Before the others: a webhook words its denial as it likes, also like another plugin.
    # This one is kcr's own, of objects that it has created and deleted again.
    (
        "policy", "was changed when it was created",
        "a mutating webhook or policy changes them, so that their owner loses them",
        "exempt them there, or let it keep labels, owner references and finalizers: "
        "kubectl get mutatingwebhookconfigurations,mutatingadmissionpolicies -o yaml",
    ),
    (
        "webhook", 'failed calling webhook "(?P<webhook>[^"]*)"', "an admission webhook does not answer",
        "mend its service, or set failurePolicy Ignore until then; where it is called: "
        "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o yaml",
    ),
    (
        "policy", 'admission webhook "(?P<webhook>[^"]*)" denied', "an admission webhook denies them",
        "{change} that it accepts, or change its rules",
    ),
    (
        "quota", "exceeded quota: (?P<quota>[^,:]+)", "a ResourceQuota is used up",
        "delete what uses it up, or raise it: kubectl -n {namespace} describe resourcequota {quota}",
    ),
    (
        "quota", "failed quota: (?P<quota>[^,:]+)", "a ResourceQuota needs values that they lack",
        "{change} that states them, or set defaults with a LimitRange; "
        "the quota: kubectl -n {namespace} describe resourcequota {quota}",
    ),
    (
        "policy", "ValidatingAdmissionPolicy '(?P<name>[^']*)'", "a ValidatingAdmissionPolicy denies them",
        "{change} that it accepts; the policy: kubectl get validatingadmissionpolicy {name} -o yaml",
    ),
    (
        "policy", 'violates PodSecurity "', "the namespace's Pod Security level denies them",
        "{change} that sets the securityContext as the message asks; "
        "the level: kubectl get namespace {namespace} --show-labels",
    ),
    (
        "configuration", "looking up service account [^/ ]*/(?P<name>[^: ]+)", "their service account does not exist",
        "create it, and they are created by themselves: kubectl -n {namespace} create serviceaccount {name}",
    ),
    (
        "configuration", "no PriorityClass with name (?P<name>[^ ]+)", "their PriorityClass does not exist",
        "create it, and they are created by themselves: kubectl create priorityclass {name} --value=1000",
    ),
    (
        "namespace", "being terminated", "their namespace is being deleted",
        "use another namespace; what holds this one: kubectl get namespace {namespace} -o yaml",
    ),
    ("rights", _DENIAL, "their controller has no right to create them", ""),
    (
        "policy", "(maximum|minimum) .* usage per", "a LimitRange does not allow what they ask for",
        "{change} within the limits: kubectl -n {namespace} describe limitrange",
    ),
    ("configuration", "is invalid", "the template is invalid", "{change} that is valid"),
    (
        "policy", "is forbidden", "an admission rule of the API server denies them",
        "{change} that does as the message asks",
    ),
    ("other", "", "the API server refuses them", "see the message"),
)  # fmt: skip


class Refusal(NamedTuple):
    """Why objects are not created.

    Attributes:
        cause: The cause, as a clause that calls the objects `them`.
        remedy: A remedy for the user.
        webhook: The admission webhook that refuses them; empty for none.
    """

    cause: str
    remedy: str
    webhook: str = ""


class Denial(NamedTuple):
    """A right that a user lacks, as an API server names it.

    Attributes:
        user: Who lacks it.
        verb: The verb of the refused request.
        group: The API group; empty for core.
        resource: The plural, with a subresource behind a slash, such as `jobs/status`.
        namespace: Where; empty for the cluster scope.
    """

    user: str
    verb: str
    group: str
    resource: str
    namespace: str


_ACCOUNT = re.compile("system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)")


def denials_in(text: str) -> tuple[Denial, ...]:
    """Return the rights that a text of an API server names as missing."""
    return tuple(
        Denial(**{name: word or "" for name, word in found.groupdict().items()}) for found in re.finditer(_DENIAL, text)
    )


def grant_remedy(denials: Sequence[Denial], plugin: str = "") -> str:
    """Return the remedy for missing rights, one command that grants all of them.

    Args:
        denials: The rights that are known to be missing, of one user; one at least.
        plugin: The plugin that lacks them, as `--controllers` names it: all its rights are granted then, for those that
            it has not asked for yet are most likely missing too. Empty for another program: those that are named, and
            events.
    """
    first = denials[0]
    if plugin:
        return f"grant all that it needs: {_plugin_command(first, plugin)}"
    wanted: dict[tuple[str, str], set[str]] = {("", "events"): {"create", "patch"}}
    for one in denials:
        wanted.setdefault((one.group, one.resource), set()).add(one.verb)
    alike: dict[tuple[str, ...], list[str]] = {}
    for (group, resource), verbs in wanted.items():
        plural, _, subresource = resource.partition("/")
        name = f"{plural}{group and f'.{group}'}{subresource and f'/{subresource}'}"
        alike.setdefault(tuple(sorted(verbs)), []).append(name)
    place, kind = (
        (f"kubectl -n {shlex.quote(first.namespace)}", "role") if first.namespace else ("kubectl", "clusterrole")
    )
    account = _ACCOUNT.fullmatch(first.user)
    who = f"--serviceaccount={account[1]}:{account[2]}" if account else f"--user={shlex.quote(first.user)}"
    short = re.sub("[^a-z0-9]+", "-", first.user.rpartition(":")[2].lower()).strip("-")
    commands = []
    for allowed, resources in reversed(alike.items()):
        name = f"{short}-{resources[-1].replace('/', '-')}"
        granted = f"--verb={','.join(allowed)} --resource={shlex.quote(','.join(resources))}"
        commands.append(f"{place} create {kind} {shlex.quote(name)} {granted}")
        commands.append(f"{place} create {kind}binding {shlex.quote(name)} --{kind}={shlex.quote(name)} {who}")
    return f"grant what is missing, and to write events: {' && '.join(commands)}"


def _plugin_command(denial: Denial, plugin: str) -> str:
    account, place = _ACCOUNT.fullmatch(denial.user), shlex.quote(denial.namespace)
    command = f"kcr rbac generate --controllers {shlex.quote(plugin)}"
    if denial.namespace:
        command = f"{command} --namespace {place}"
    if account is not None:
        return f"{command} --service-account {account[1]}/{account[2]} | kubectl apply -f -"
    name = f"kcr-{re.sub('[^a-z0-9]+', '-', plugin.lower()).strip('-')}"
    where, kind = (f"kubectl -n {place}", "role") if denial.namespace else ("kubectl", "clusterrole")
    bind = f"{where} create {kind}binding {name} --{kind}={name} --user={shlex.quote(denial.user)}"
    return f"{command} --name {name} | kubectl apply -f - && {bind}"


def refusal_of(message: str, *, namespace: str, resource: str, change: str, plugin: str = "") -> Refusal:
    """Return the cause in the API server's message of a refused create.

    Args:
        message: The message.
        namespace: Where the objects were to be.
        resource: Their plural.
        change: How a user gets another template, such as `create the Job anew with a template`.
        plugin: The plugin that creates them, as `--controllers` names it; empty for another program.
    """
    fields = {"namespace": namespace, "resource": resource, "change": change}
    for _, pattern, cause, remedy in _REFUSALS:
        if found := re.search(pattern, message):
            # Authors of events and webhooks choose these words, and a user copies the command into a shell.
            words = {name: shlex.quote(word) for name, word in found.groupdict().items()}
            if not remedy and (denials := denials_in(message)):
                return Refusal(cause, grant_remedy(denials, plugin))
            return Refusal(cause, remedy.format(**fields, **words), found.groupdict().get("webhook", ""))
    raise AssertionError("the last pattern fits everything")


def cause_of(message: str) -> str:
    """Return the cause in the API server's message of a refused create, and the names of what refuses it.

    Repeats of one cause have the same, whatever else the message says, such as the name of the object, or the amounts
    of a quota that are in use.
    """
    for _, pattern, cause, _ in _REFUSALS:
        if found := re.search(pattern, message):
            return " ".join((cause, *filter(None, found.groupdict().values())))
    raise AssertionError("the last pattern fits everything")


def topic_of(message: str) -> str:
    """Return the cause in the API server's message of a refused create in one word, for counts by cause."""
    return next(topic for topic, pattern, *_ in _REFUSALS if re.search(pattern, message))
