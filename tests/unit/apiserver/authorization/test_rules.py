"""Source: kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go; component-helpers/auth/rbac/validation."""

import fnmatch

from hypothesis import example, given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.authorization.attributes import Attributes
from kcr_devcluster.apiserver.authorization.rules import PolicyRule, compact, rules_of, uncovered

VERBS, GROUPS, KINDS, NAMES = ("get", "list"), ("", "apps"), ("pods", "jobs"), ("a", "b")
SUBRESOURCES = ("", "log", "scale")
PATHS = ("/api", "/api/v1", "/metrics")


def some(*values: str, least: int = 1) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=3, unique=True).map(tuple)


RESOURCES = some(*KINDS, "pods/log", "*/scale", "*/log", "jobs/scale", "*")
RESOURCE_RULES = st.tuples(some(*VERBS, "*"), some(*GROUPS, "*"), RESOURCES, some(*NAMES, least=0))
PATH_RULES = st.tuples(some(*VERBS, "*"), some("/api", "/api/*", "/metrics", "*"))
RULES = st.lists(
    RESOURCE_RULES.map(lambda given: PolicyRule(*given))
    | PATH_RULES.map(lambda given: PolicyRule(given[0], paths=given[1])),
    max_size=4,
)
PLACES = st.tuples(*map(st.sampled_from, ((*VERBS, "delete"), GROUPS, KINDS, SUBRESOURCES, ("default",), (*NAMES, ""))))
WANTED = PLACES.map(lambda given: Attributes(*given)) | st.tuples(st.sampled_from(VERBS), st.sampled_from(PATHS)).map(
    lambda given: Attributes(given[0], path=given[1])
)


def allowed(rule: PolicyRule, wanted: Attributes) -> bool:
    """The evaluator again, as plainly as the documentation puts it: every wildcard is a pattern."""
    if wanted.verb not in rule.verbs and "*" not in rule.verbs:
        return False
    if wanted.path:
        return any(fnmatch.fnmatchcase(wanted.path, path) for path in rule.paths)
    if wanted.group not in rule.groups and "*" not in rule.groups:
        return False
    if rule.names and wanted.name not in rule.names:
        return False
    known = {"*", wanted.resource_path}
    if wanted.subresource:
        known.add(f"*/{wanted.subresource}")
    return any(resource in known for resource in rule.resources)


@given(RULES, WANTED)
@example([PolicyRule(("get",), ("",), ("*/scale",))], Attributes("get", "", "pods", "scale"))
@example([PolicyRule(("get",), ("",), ("pods",))], Attributes("get", "", "pods", "log"))
def test_rules_allow_what_a_naive_evaluator_allows(rules: list[PolicyRule], wanted: Attributes) -> None:
    assert [rule.allows(wanted) for rule in rules] == [allowed(rule, wanted) for rule in rules]


@given(RULES, WANTED)
def test_parts_of_a_rule_allow_what_the_rule_allows(rules: list[PolicyRule], wanted: Attributes) -> None:
    for rule in rules:
        assert rule.allows(wanted) == any(part.allows(wanted) for part in rule.parts)


@given(RULES, RULES, WANTED)
def test_covered_rules_allow_nothing_more(
    owned: list[PolicyRule], granted: list[PolicyRule], wanted: Attributes
) -> None:
    missing = uncovered(owned, granted)
    if not any(part.allows(wanted) for part in missing) and any(rule.allows(wanted) for rule in granted):
        assert any(rule.allows(wanted) for rule in owned)


@given(RULES)
def test_user_may_grant_what_he_has(rules: list[PolicyRule]) -> None:
    assert uncovered(rules, rules) == []
    assert uncovered([PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), paths=("*",))], rules) == []


def test_missing_rights_are_shown_by_resource_with_their_verbs() -> None:
    granted = [PolicyRule(("get", "list"), ("", "apps"), ("pods",)), PolicyRule(("get",), ("",), ("secrets",), ("a",))]
    assert [str(rule) for rule in compact(uncovered([PolicyRule(("get",), ("",), ("pods",))], granted))] == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}',
        '{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}',
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get"]}',
    ]


def test_all_objects_are_more_than_some() -> None:
    some_pods, all_pods = PolicyRule(("get",), ("",), ("pods",), ("a",)), PolicyRule(("get",), ("",), ("pods",))
    assert (uncovered([some_pods], [all_pods]), uncovered([all_pods], [some_pods])) == ([all_pods], [])


def test_role_without_rules_has_none() -> None:
    assert rules_of({"rules": None}) == ()
