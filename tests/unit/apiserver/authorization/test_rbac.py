"""The authorizer on its index, against a walk through all bindings.

Source: kubernetes/pkg/registry/rbac/validation/rule.go, VisitRulesFor and appliesToUser.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.authentication.users import user_named
from kcr_devcluster.apiserver.authorization import AlwaysAllow, Attributes, Rbac
from kcr_devcluster.apiserver.authorization.rules import rules_of
from kcr_devcluster.apiserver.kinds.catalogue import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.storage.storage import Storage

USERS = (
    user_named("a", ["g"]), user_named("g"), user_named("system:serviceaccount:n:a"),
    user_named("system:serviceaccount:m:a"),
)  # fmt: skip
SUBJECTS = st.lists(
    st.sampled_from([
        {"kind": "User", "name": "a"}, {"kind": "User", "name": "g"}, {"kind": "Group", "name": "g"},
        {"kind": "Group", "name": "system:serviceaccounts:m"}, {"kind": "ServiceAccount", "name": "a"},
        {"kind": "ServiceAccount", "name": "a", "namespace": "n"},
    ]),
    max_size=2,
)  # fmt: skip
RULES = st.lists(
    st.sampled_from([
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]},
        {"verbs": ["*"], "apiGroups": [""], "resources": ["*/log"]},
        {"verbs": ["get"], "nonResourceURLs": ["/api/*"]},
    ]),
    max_size=2,
)  # fmt: skip
REFERENCES = st.sampled_from([{"kind": kind, "name": name} for kind in ("Role", "ClusterRole") for name in "rs"])
NAMED = {"resourceNames": ["x"]}
WANTED = [
    Attributes("get", "", "pods", subresource, namespace, name)
    for subresource in ("", "log")
    for namespace in ("", "n", "m")
    for name in ("", "x", "y")
] + [Attributes("get", path="/api/x")]
# A change: the kind, namespace and name of an object, and what it is to hold; None removes it.
PLACES = st.sampled_from(["n", "m"])
CHANGES = st.lists(
    st.tuples(st.just(ROLES), PLACES, st.sampled_from("rs"), st.none() | RULES.map(lambda rules: {"rules": rules}))
    | st.tuples(st.just(CLUSTER_ROLES), st.just(""), st.sampled_from("rs"), st.none() | st.builds(dict, rules=RULES))
    | st.tuples(
        st.just(ROLE_BINDINGS), PLACES, st.sampled_from("bc"),
        st.none() | st.builds(dict, roleRef=REFERENCES, subjects=SUBJECTS),
    )
    | st.tuples(
        st.just(CLUSTER_ROLE_BINDINGS), st.just(""), st.sampled_from("bc"),
        st.none() | st.builds(dict, roleRef=REFERENCES.filter(lambda role: role["kind"] == "ClusterRole"),
                              subjects=SUBJECTS),
    ),
    max_size=12,
)  # fmt: skip


def change(storage: Storage, kind: Kind, namespace: str, name: str, content: dict[str, Any] | None) -> None:
    old = storage.get(kind, namespace, name)
    if content is not None:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        storage.put(kind, {"metadata": metadata, **content}, old)
    elif old is not None:
        storage.remove(old)


def is_subject(user: User, subject: dict[str, str], namespace: str) -> bool:
    match subject["kind"]:
        case "User":
            return subject["name"] == user.username
        case "Group":
            return subject["name"] in user.groups
    home = subject.get("namespace") or namespace
    return bool(home) and user.username == f"system:serviceaccount:{home}:{subject['name']}"


def walk(storage: Storage, user: User, wanted: Attributes) -> bool:
    """Decide without an index: look at every binding there is."""
    for kind in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
        for record in storage.cache(kind).records.values():
            namespace, bound = record.metadata.namespace, record.manifest()
            if namespace not in ("", wanted.namespace):
                continue
            if not any(is_subject(user, subject, namespace) for subject in bound.get("subjects", [])):
                continue
            is_role = bound["roleRef"]["kind"] == "Role"
            role = storage.get(
                ROLES if is_role else CLUSTER_ROLES, namespace if is_role else "", bound["roleRef"]["name"]
            )
            if role is not None and any(rule.allows(wanted) for rule in rules_of(role.manifest())):
                return True
    return False


@given(CHANGES)
def test_decisions_after_each_change_are_those_of_a_walk(changes: list[Any]) -> None:
    storage = Storage()
    rbac = Rbac(storage)
    for one in changes:
        change(storage, *one)
        # Twice: looked up, and remembered.
        for _ in range(2):
            for user in USERS:
                found = [rbac.authorize(user, wanted).is_allowed for wanted in WANTED]
                assert found == [walk(storage, user, wanted) for wanted in WANTED]


@given(CHANGES)
def test_storage_that_is_there_already_is_indexed(changes: list[Any]) -> None:
    storage = Storage()
    for one in changes:
        change(storage, *one)
    rbac = Rbac(storage)
    for user in USERS:
        assert [rbac.authorize(user, w).is_allowed for w in WANTED] == [walk(storage, user, w) for w in WANTED]


def test_many_users_and_resources_are_forgotten_in_time() -> None:
    rbac = Rbac(Storage())
    for number in range(2_100):
        assert not rbac.authorize(user_named(f"u{number}"), WANTED[0]).is_allowed
        assert not rbac.authorize(USERS[0], Attributes("get", "", f"r{number}")).is_allowed


@pytest.mark.parametrize("together", [True, False], ids=["one-role", "two-roles"])
def test_wider_rule_after_one_with_names_counts(together: bool) -> None:
    limited, wide = ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], **more} for more in (NAMED, {}))
    storage = Storage()
    for name, rules in (("r", [limited, wide] if together else [limited]), ("s", [wide])):
        change(storage, ROLES, "n", name, {"rules": rules})
        reference = {"kind": "Role", "name": name}
        change(storage, ROLE_BINDINGS, "n", name, {"roleRef": reference, "subjects": [{"kind": "User", "name": "a"}]})
    rbac = Rbac(storage)
    for name in ("x", "y", ""):
        assert rbac.authorize(USERS[0], Attributes("get", "", "pods", namespace="n", name=name)).is_allowed
    change(storage, ROLE_BINDINGS, "n", "s", None)
    allowed = rbac.authorize(USERS[0], Attributes("get", "", "pods", namespace="n", name="y")).is_allowed
    assert allowed is together


def test_masters_need_no_role_and_everybody_none_by_default() -> None:
    assert Rbac(Storage()).authorize(user_named("x", ["system:masters"]), WANTED[0]) == (True, "")
    assert AlwaysAllow().authorize(user_named("x"), WANTED[0]) == (True, "")
