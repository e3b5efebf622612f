"""Expressions of admission: what they may name, the types they have, and how they are evaluated."""

from collections.abc import Mapping
from typing import Any

import pytest

from kcr_devcluster.apiserver.cel.admission import Declarations, LazyVariables, compile_admission
from kcr_devcluster.apiserver.cel.libraries.authorizer import Authorizer, Decision, ResourceCheck
from kcr_devcluster.apiserver.cel.metering import UNLIMITED, Budget
from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.cel.types import DYN, INT, STRING
from kcr_devcluster.apiserver.cel.values import EvaluationError, Object

VARIABLES = {"any": DYN, "count": INT, "name": STRING, "broken": DYN}
DECLARED = Declarations(has_params=True, has_patches=True, variables=VARIABLES)
FAILED = 'composited variable "broken" fails to evaluate: no such key: y'


class Variables:
    """Variables, of which one has no value, and the checks that were asked of the authorizer."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, str]] = []

    def variable(self, name: str) -> Any:
        if name == "broken":
            raise EvaluationError(FAILED)
        return {"count": 5, "name": "web"}[name]

    def authorize(self, wanted: Mapping[str, str]) -> Decision:
        self.asked.append(wanted)
        return Decision(wanted["verb"] == "get", "by a role")


def evaluate(text: str, wanted: str = "bool", host: Variables | None = None) -> Any:
    expression = compile_admission(text, DECLARED, (wanted,))
    host = host or Variables()
    return expression.evaluate({
        "object": {"spec": {"replicas": 2, "names": ["/a", "/b"]}}, "oldObject": None, "params": None,
        "namespaceObject": {"metadata": {"labels": {"x": "y"}}}, "request": {"name": "web", "dryRun": False},
        "variables": LazyVariables(tuple(VARIABLES), host.variable), "authorizer": Authorizer(host.authorize),
        "authorizer.requestResource": ResourceCheck(host.authorize, {"group": "apps", "resource": "deployments"}),
    }, Budget(UNLIMITED, 1000))  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("object.spec.replicas > 1 && oldObject == null && params == null", id="objects"),
        pytest.param("request.name == 'web' && !request.dryRun", id="request"),
        pytest.param("namespaceObject.metadata.labels['x'] == 'y'", id="namespace"),
        pytest.param("variables.count == 5 && variables.name == 'web'", id="variables"),
        pytest.param("has(variables.broken)", id="variable-that-is-only-tested"),
        pytest.param("true || variables.broken", id="variable-that-is-not-needed"),
        pytest.param("object.spec.names.all(n, n.startsWith('/'))", id="macro"),
        pytest.param("{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}", id="macro-of-maps"),
        pytest.param("object.spec.replicas < 2.5", id="numbers-of-different-types"),
        pytest.param("[dyn(1), dyn('a')].size() == [object.spec.names, oldObject].size()", id="items-of-any-type"),
        pytest.param("'%s-%d'.format(['a', 1]) == 'a-1'", id="items-that-are-formatted"),
    ],
)
def test_condition_holds(text: str) -> None:
    assert evaluate(text) is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("object.spec.nope > 1", "no such key: nope", id="field"),
        pytest.param("variables.broken == 1", FAILED, id="variable"),
        pytest.param("oldObject.spec == 1", "no such key: spec", id="field-of-null"),
    ],
)
def test_evaluation_fails_in_words_of_cel_go(text: str, said: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(text)
    assert str(failed.value) == said


@pytest.mark.parametrize(
    ("text", "wanted", "said"),
    [
        pytest.param("object.spec.x", "bool", "must evaluate to bool but got dyn", id="any-type"),
        pytest.param("request.name", "bool", "must evaluate to bool but got string", id="field-of-request"),
        pytest.param("variables.count", "string", "must evaluate to string but got int", id="variable"),
        pytest.param("[1]", "bool", "must evaluate to bool but got list(int)", id="list"),
        pytest.param("{'a': 1}", "Object", "must evaluate to Object but got map(string, int)", id="map"),
        pytest.param("request.nope == 1", "bool", "undefined field 'nope'", id="unknown-field"),
        pytest.param("variables.nope == 1", "bool", "undefined field 'nope'", id="unknown-variable"),
        pytest.param("variables.name + 1", "bool", "overload for '_+_' applied to '(string, int)'", id="types"),
        pytest.param("authorizer.nope == 1", "bool", "undefined field 'nope'", id="field-of-authorizer"),
        pytest.param("[1, 'a'] == []", "bool", "1:5: expected type 'int' but found 'string'", id="mixed-list"),
        pytest.param("{'a': 1, 'b': true} == {}", "bool", "expected type 'int' but found 'bool'", id="mixed-map"),
        pytest.param("{'a': 1, 2: 1} == {}", "bool", "expected type 'string' but found 'int'", id="mixed-keys"),
        pytest.param("[object.a, 'b'] == []", "bool", "expected type 'dyn' but found 'string'", id="any-type-and-text"),
        pytest.param("variables.any", "bool", "must evaluate to bool but got dyn", id="variable-of-any-type"),
        pytest.param("true ? object.a : 'b'", "string", "must evaluate to string but got dyn", id="choice"),
        pytest.param("[[1], [1.5]] == []", "bool", "expected type 'list(int)' but found 'list(double)'", id="lists"),
        pytest.param("nope == 1", "bool", "undeclared reference to 'nope' (in container '')", id="unknown-name"),
        pytest.param("Object{a: nope}", "Object", "undeclared reference to 'nope' (in container '')", id="in-patch"),
        pytest.param("Foo{}", "Object", "undeclared reference to 'Foo' (in container '')", id="unknown-type"),
        pytest.param("1 +", "bool", "Syntax error", id="syntax"),
    ],
)
def test_wrong_expression_is_refused(text: str, wanted: str, said: str) -> None:
    with pytest.raises(CompilationError) as failed:
        compile_admission(text, DECLARED, (wanted,))
    assert said in str(failed.value)


@pytest.mark.parametrize("name", ["params", "authorizer", "variables"])
def test_optional_variable_is_not_declared_without_need(name: str) -> None:
    with pytest.raises(CompilationError, match=f"undeclared reference to '{name}'"):
        compile_admission(f"{name} == null", Declarations(has_authorizer=False), ("bool",))


def test_errors_stand_in_the_order_of_the_text() -> None:
    with pytest.raises(CompilationError) as failed:
        compile_admission("Object{spec: 1 + 'a', y: nope}", DECLARED, ("Object",))
    assert str(failed.value) == (
        "compilation failed: ERROR: <input>:1:16: found no matching overload for '_+_' applied to '(int, string)'\n"
        " | Object{spec: 1 + 'a', y: nope}\n | ...............^\n"
        "ERROR: <input>:1:26: undeclared reference to 'nope' (in container '')\n"
        " | Object{spec: 1 + 'a', y: nope}\n | .........................^"
    )


def test_constructed_object_knows_its_types() -> None:
    text = "Object{spec: Object.spec{replicas: variables.count, ?x: object.?y, l: [Object.spec.l{a: 'b'}]}}"
    found = evaluate(text, "Object")
    assert found == {"spec": {"replicas": 5, "l": [{"a": "b"}]}}
    objects = (found, found["spec"], found["spec"]["l"][0])
    assert [one.type_name for one in objects if isinstance(one, Object)] == ["Object", "Object.spec", "Object.spec.l"]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        pytest.param(
            "[JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey('a/b~'), value: 1}]", ["/a~1b~0"], id="one"
        ),
        pytest.param("object.spec.names.map(n, JSONPatch{op: 'remove', path: n})", ["/a", "/b"], id="macro"),
        pytest.param("true ? [JSONPatch{op: 'remove', path: '/a'}] : []", ["/a"], id="choice"),
        pytest.param("[] + [JSONPatch{op: 'remove', path: '/a'}]", ["/a"], id="sum"),
    ],
)
def test_json_patch_is_a_list_of_operations(text: str, paths: list[str]) -> None:
    assert [one["path"] for one in evaluate(text, "list(JSONPatch)")] == paths


def test_authorizer_is_asked_for_what_the_expression_names() -> None:
    host = Variables()
    assert evaluate("authorizer.group('apps').resource('pods').namespace('x').check('get').allowed()", host=host)
    assert not evaluate("authorizer.path('/healthz').check('post').allowed()", host=host)
    assert evaluate("authorizer.requestResource.subresource('scale').check('get').reason() == 'by a role'", host=host)
    assert evaluate(
        "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').check('get').allowed()", host=host
    )
    assert host.asked == [
        {"group": "apps", "resource": "pods", "namespace": "x", "verb": "get"},
        {"path": "/healthz", "verb": "post"},
        {"group": "apps", "resource": "deployments", "subresource": "scale", "verb": "get"},
        {"serviceAccount": "ns:sa", "group": "", "resource": "pods", "verb": "get"},
    ]


@pytest.mark.parametrize("text", ["(" * 500 + "true" + ")" * 500, "object" + ".a" * 3000 + " == 1"])
def test_expression_that_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(CompilationError, match=r"compilation failed: ERROR: <input>:.* recursion"):
        compile_admission(text, DECLARED, ("bool",))
