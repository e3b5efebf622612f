"""What an API server's refusal to create objects tells of."""

import pytest

from kcr.refusals import Denial, cause_of, denials_in, grant_remedy, refusal_of

QUOTA = 'pods "a" is forbidden: exceeded quota: team, requested: pods=1, used: pods=9, limited: pods=9'
POLICY = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'labels' with binding 'all' denied request: no owner"
PRIORITY = 'pods "a" is forbidden: no PriorityClass with name urgent was found'
ENDING = 'pods "a" is forbidden: unable to create new content in namespace ns because it is being terminated'
RIGHT = 'jobs.batch is forbidden: User "ann" cannot create resource "jobs" in API group "batch" in the namespace "ns"'
GRANT = (
    "grant what is missing, and to write events: "
    "kubectl -n ns create role ann-jobs.batch --verb=create --resource=jobs.batch && "
    "kubectl -n ns create rolebinding ann-jobs.batch --role=ann-jobs.batch --user=ann && "
    "kubectl -n ns create role ann-events --verb=create,patch --resource=events && "
    "kubectl -n ns create rolebinding ann-events --role=ann-events --user=ann"
)


@pytest.mark.parametrize(
    ("message", "cause", "remedy"),
    [
        pytest.param(
            QUOTA, "a ResourceQuota is used up",
            "delete what uses it up, or raise it: kubectl -n ns describe resourcequota team", id="quota",
        ),
        pytest.param(
            'pods "a" is forbidden: failed quota: team: must specify cpu for: c',
            "a ResourceQuota needs values that they lack",
            "change it to one that states them, or set defaults with a LimitRange; "
            "the quota: kubectl -n ns describe resourcequota team", id="quota-wants-values",
        ),
        pytest.param(
            POLICY, "a ValidatingAdmissionPolicy denies them",
            "change it to one that it accepts; the policy: kubectl get validatingadmissionpolicy labels -o yaml",
            id="policy",
        ),
        pytest.param(
            PRIORITY, "their PriorityClass does not exist",
            "create it, and they are created by themselves: kubectl create priorityclass urgent --value=1000",
            id="priority-class",
        ),
        pytest.param(
            ENDING, "their namespace is being deleted",
            "use another namespace; what holds this one: kubectl get namespace ns -o yaml", id="namespace",
        ),
        pytest.param(RIGHT, "their controller has no right to create them", GRANT, id="right"),
        pytest.param(
            'Job.batch "a" is invalid: metadata.name: Invalid value', "the template is invalid",
            "change it to one that is valid", id="invalid",
        ),
        pytest.param(
            'pods "a" is forbidden: pod does not tolerate', "an admission rule of the API server denies them",
            "change it to one that does as the message asks", id="another-rule",
        ),
        pytest.param("etcdserver: mvcc: database space exceeded", "the API server refuses them", "see the message",
                     id="anything-else"),
    ],
)  # fmt: skip
def test_refusal_has_cause_and_remedy(message: str, cause: str, remedy: str) -> None:
    found = refusal_of(message, namespace="ns", resource="jobs", change="change it to one")
    assert (found.cause, found.remedy) == (cause, remedy)


def test_command_quotes_what_the_message_names() -> None:
    found = refusal_of("exceeded quota: $(rm -rf ~), requested: pods=1", namespace="ns", resource="pods", change="")
    assert found.remedy.endswith("describe resourcequota '$(rm -rf ~)'")


def test_webhook_that_words_its_denial_like_a_quota_is_a_webhook() -> None:
    message = 'admission webhook "q.example" denied the request: exceeded quota: team, requested: pods=1'
    found = refusal_of(message, namespace="ns", resource="pods", change="create it with a template")
    assert found.cause == "an admission webhook denies them"


def test_missing_rights_of_a_plugin_are_granted_all_at_once() -> None:
    denied = denials_in(RIGHT.replace('"ann"', '"system:serviceaccount:kcr-system:kcr"'))
    assert denied == (Denial("system:serviceaccount:kcr-system:kcr", "create", "batch", "jobs", "ns"),)
    assert grant_remedy(denied, "cronjob") == (
        "grant all that it needs: kcr rbac generate --controllers cronjob --namespace ns "
        "--service-account kcr-system/kcr | kubectl apply -f -"
    )
    assert grant_remedy(denials_in(RIGHT), "cronjob") == (
        "grant all that it needs: kcr rbac generate --controllers cronjob --namespace ns --name kcr-cronjob | "
        "kubectl apply -f - && kubectl -n ns create rolebinding kcr-cronjob --role=kcr-cronjob --user=ann"
    )


def test_missing_rights_of_a_cluster_are_granted_by_verbs() -> None:
    cluster = 'cannot patch resource "sites/status" in API group "example.dev" at the cluster scope'
    denied = denials_in(f'User "a b" {cluster}; User "a b" {cluster.replace("patch", "create")}')
    assert grant_remedy(denied) == (
        "grant what is missing, and to write events: kubectl create clusterrole a-b-sites.example.dev-status "
        "--verb=create,patch --resource=events,sites.example.dev/status && "
        "kubectl create clusterrolebinding a-b-sites.example.dev-status "
        "--clusterrole=a-b-sites.example.dev-status --user='a b'"
    )


def test_refusal_names_its_webhook() -> None:
    denied = 'admission webhook "policy.example.com" denied the request: image is not signed'
    silent = 'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post …'
    found = [refusal_of(one, namespace="ns", resource="pods", change="") for one in (denied, silent, QUOTA)]
    assert [one.webhook for one in found] == ["policy.example.com", "mpod.kb.io", ""]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        pytest.param(QUOTA, QUOTA.replace('"a"', '"b"').replace("used: pods=9", "used: pods=8"), True, id="quota"),
        pytest.param(QUOTA, QUOTA.replace("quota: team", "quota: other"), False, id="another-quota"),
        pytest.param(POLICY, POLICY.replace("no owner", "no owner of b at 10:00"), True, id="policy"),
        pytest.param(POLICY, POLICY.replace("'labels'", "'names'"), False, id="another-policy"),
        pytest.param(
            'admission webhook "a.io" denied the request: 1', 'admission webhook "a.io" denied the request: 2', True,
            id="webhook",
        ),
        pytest.param(
            'admission webhook "a.io" denied the request: no', 'admission webhook "b.io" denied the request: no', False,
            id="another-webhook",
        ),
        pytest.param('pods "pi-" is forbidden', 'pods "pi-x7k2p" is forbidden', True, id="prefix-of-a-name"),
        pytest.param(QUOTA, POLICY, False, id="another-rule"),
        pytest.param("internal error 17", "internal error 18", True, id="unknown"),
    ],
)  # fmt: skip
def test_cause_is_the_same_whatever_else_the_message_says(one: str, other: str, is_same: bool) -> None:
    assert (cause_of(one) == cause_of(other)) is is_same
