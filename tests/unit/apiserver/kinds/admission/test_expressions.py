"""Which variables and types the expressions of webhooks and policies have, by their purpose."""

import pytest

from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.kinds.admission.expressions import (
    APPLY_CONFIGURATION,
    AUDIT_ANNOTATION,
    JSON_PATCH,
    MATCH_CONDITION,
    MESSAGE,
    VALIDATION,
    VARIABLE,
    Expression,
    compile_errors,
    compile_variables,
    types_of,
)

VARIABLES = ({"name": "n", "expression": "1"}, {"name": "t", "expression": "'a' + string(variables.n)"})


def detail(purpose: str, text: str, *, has_params: bool = False) -> str:
    variables = types_of(compile_variables(VARIABLES, has_params=has_params))
    errors = compile_errors(Expression(text, "spec.x", purpose, has_params, variables))
    return "".join(error.message.partition(f'"{text}": ')[2].partition("\n")[0] for error in errors)


@pytest.mark.parametrize(
    ("purpose", "text", "said"),
    [
        (MATCH_CONDITION, "object.a == 1", ""),
        (MATCH_CONDITION, "variables.n == 1", "undeclared reference to 'variables'"),
        (MATCH_CONDITION, "'a'", "must evaluate to bool but got string"),
        (VALIDATION, "variables.t == 'a1' && authorizer.path('/').check('get').allowed()", ""),
        (VALIDATION, "Object{} == null", "undeclared reference to 'Object'"),
        (VALIDATION, "params == null", "undeclared reference to 'params'"),
        (MESSAGE, "variables.t", ""),
        (MESSAGE, "authorizer.path('/').check('get').reason()", "undeclared reference to 'authorizer'"),
        (AUDIT_ANNOTATION, "null", ""),
        (AUDIT_ANNOTATION, "variables.n", "must evaluate to one of [string null_type] but got int"),
        (VARIABLE, "[variables.n]", ""),
        (VARIABLE, "variables.later", "undefined field 'later'"),
        (APPLY_CONFIGURATION, "Object{spec: Object.spec{a: variables.n}}", ""),
        (JSON_PATCH, "[JSONPatch{op: 'test', path: '/a', value: variables.n}]", ""),
        (JSON_PATCH, "Object{}", "must evaluate to list(JSONPatch) but got Object"),
    ],
)
def test_purpose_decides_names_and_types(purpose: str, text: str, said: str) -> None:
    found = detail(purpose, text)
    assert said in found
    assert bool(said) == bool(found)


def test_params_are_declared_where_there_are_some() -> None:
    assert not detail(VALIDATION, "params == null", has_params=True)


@pytest.mark.parametrize(("first", "fits"), [("1", True), ("'y'", False)])
def test_variable_has_the_types_of_those_before_it(first: str, fits: bool) -> None:
    variables = [{"name": "a", "expression": first}, {"name": "b", "expression": "variables.a + 1"}]
    found = compile_variables(variables, has_params=False)
    assert isinstance(found["b"], CompilationError) is not fits


PUBLISHED = [
    (VALIDATION, "object.spec.replicas <= params.maxReplicas"),
    (MESSAGE, "'object.spec.replicas must be no greater than ' + string(params.maxReplicas)"),
    (MATCH_CONDITION, "!('system:nodes' in request.userInfo.groups)"),
    (
        MATCH_CONDITION,
        "!authorizer.group('admissionregistration.k8s.io').resource('validatingwebhookconfigurations')"
        ".name('my-webhook.example.com').check('breakglass').allowed()",
    ),
    (VARIABLE, "object.spec.template.metadata.annotations.?exempted.orValue('')"),
    (
        VARIABLE,
        "'environment' in namespaceObject.metadata.labels ? namespaceObject.metadata.labels['environment'] : 'prod'",
    ),
    (VALIDATION, "object.spec.containers.all(c, has(c.securityContext) && c.securityContext.runAsNonRoot == true)"),
    (AUDIT_ANNOTATION, "'Deployment spec.replicas set to ' + string(object.spec.replicas)"),
    (
        APPLY_CONFIGURATION,
        "Object{spec: Object.spec{initContainers: ["
        "Object.spec.initContainers{name: 'mesh-proxy', args: ['proxy', 'sidecar'], restartPolicy: 'Always'}]}}",
    ),
    (
        JSON_PATCH,
        "[JSONPatch{op: 'add', path: '/spec/selector', "
        "value: Object.spec.selector{matchLabels: {'environment': 'test'}}}]",
    ),
]


@pytest.mark.parametrize(("purpose", "text"), PUBLISHED)
def test_published_expressions_compile(purpose: str, text: str) -> None:
    """Those of kubernetes.io/docs/reference/access-authn-authz, abridged."""
    assert compile_errors(Expression(text, "spec.x", purpose, has_params=True)) == []
