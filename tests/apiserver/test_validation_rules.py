"""Validation rules (`x-kubernetes-validations`): what they refuse, and which are refused themselves.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go;
kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions.
"""

from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, Json, definition, spec_schema, version, widget

pytestmark = pytest.mark.kcr_virtual
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}
ITEM: Json = {"type": "object", "required": ["k"], "properties": {"k": TEXT, "v": NUMBER}}
FIELDS: Json = {
    "min": NUMBER, "max": NUMBER, "ratio": {"type": "number"}, "name": TEXT, "tags": {"type": "array", "items": TEXT},
    "map": {"type": "object", "additionalProperties": TEXT}, "port": {"x-kubernetes-int-or-string": True},
    "since": {"type": "string", "format": "date-time"}, "wait": {"type": "string", "format": "duration"},
    "times": {"type": "array", "items": {"type": "string", "format": "date-time"}},
    "my-name": TEXT, "namespace": TEXT, "list": {"type": "array", "items": ITEM}, "note": {**TEXT, "nullable": True},
}  # fmt: skip


def ruled(rule: str, **more: Any) -> Json:
    return spec_schema(FIELDS, **{"x-kubernetes-validations": [{"rule": rule, **more}]})


async def install(api: Api, schema: Json) -> None:
    await api.post(DEFINITIONS, definition(version("v1", schema)))


async def patched(api: Api, spec: Any) -> list[tuple[str, str]]:
    reply = await api.call("PATCH", f"{WIDGETS}/w", {"spec": spec}, content_type="application/merge-patch+json")
    found = reply.body.get("details", {}).get("causes", [])
    return [(cause["field"], cause["message"]) for cause in found]


@pytest.mark.parametrize(
    ("rule", "spec", "holds"),
    [
        pytest.param("self.min <= self.max", {"min": 1, "max": 2}, True, id="fields"),
        pytest.param("self.min <= self.max", {"min": 3, "max": 2}, False, id="fields-not"),
        pytest.param("!has(self.name) || self.name.startsWith('a')", {}, True, id="has"),
        pytest.param("self.tags.all(t, t.size() < 3)", {"tags": ["a", "bbb"]}, False, id="all"),
        pytest.param("self.ratio * 2.0 < 3.0", {"ratio": 1}, True, id="number-that-is-an-integer"),
        pytest.param("'a' in self.map && self.map['a'] == 'b'", {"map": {"a": "b"}}, True, id="map"),
        pytest.param("type(self.port) == string ? self.port == 'http' : self.port > 0", {"port": 80}, True,
                     id="either"),
        pytest.param("self.since < timestamp('2026-01-01T00:00:00Z')", {"since": "2025-01-01T00:00:00Z"}, True,
                     id="time"),
        pytest.param("self.wait <= duration('1h')", {"wait": "90m"}, False, id="duration"),
        pytest.param("self.times.all(t, t < timestamp('2026-01-01T00:00:00Z'))", {"times": ["2026-02-01T00:00:00Z"]},
                     False, id="times-in-a-list"),
        pytest.param("self.times.all(t, duration('1h') < self.wait && timestamp('2025-01-01T00:00:00Z') <= t)",
                     {"times": ["2026-02-01T00:00:00Z"], "wait": "90m"}, True, id="times-either-way"),
        pytest.param("has(self.since) && has(self.wait)", {"since": "2025-01-01T00:00:00Z"}, False, id="has-time"),
        pytest.param("self.my__dash__name == 'a' && self.__namespace__ == 'b'", {"my-name": "a", "namespace": "b"},
                     True, id="escaped-names"),
        pytest.param("self.note == null", {"note": None}, True, id="null"),
        pytest.param("self.?name.orValue('x') == 'x'", {}, True, id="optional-field"),
        pytest.param("self.tags.isSorted()", {"tags": ["b", "a"]}, False, id="is-sorted"),
        pytest.param("self.list.map(i, i.v).sum() == 3", {"list": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}, True,
                     id="sum"),
        pytest.param("self.list.map(i, i.v).max() == 2", {"list": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}, True,
                     id="max"),
        pytest.param("self.tags.indexOf('b') == 1 && self.name.indexOf('b') == 0", {"tags": ["a", "b"], "name": "b"},
                     True, id="index-of"),
        pytest.param("self.name.find('[0-9]+') == '12'", {"name": "a12b"}, True, id="find"),
        pytest.param("self.name.findAll('[0-9]').size() == 2", {"name": "a1b2"}, True, id="find-all"),
        pytest.param("self.name.findAll('^a').size() == 1", {"name": "aaa"}, True, id="find-all-from-the-start"),
        pytest.param("self.name.findAll('a*') == ['', 'aa', '']", {"name": "baac"}, True, id="find-all-empty"),
        pytest.param("self.name.matches('^a.$')", {"name": "ab"}, True, id="matches"),
        pytest.param("isURL(self.name) && url(self.name).getHost() == 'e.io:8080'", {"name": "https://e.io:8080/a?b=c"},
                     True, id="url"),
        pytest.param("isURL(self.name)", {"name": "a/b"}, False, id="relative-url"),
        pytest.param("isURL(self.name)", {"name": "/a/b"}, True, id="path-as-url"),
        pytest.param("url(self.name).getQuery()['b'] == ['c']", {"name": "https://e.io/a?b=c"}, True, id="query"),
        pytest.param("isIP(self.name) && ip(self.name).family() == 4", {"name": "10.0.0.1"}, True, id="ip"),
        pytest.param("cidr('10.0.0.0/8').containsIP(self.name)", {"name": "11.0.0.1"}, False, id="cidr"),
        pytest.param("quantity(self.name).isGreaterThan(quantity('1Gi'))", {"name": "2Gi"}, True, id="quantity"),
        pytest.param("quantity(self.name).add(1).compareTo(quantity('3')) == 0", {"name": "2"}, True, id="add"),
        pytest.param("quantity(self.name).asApproximateFloat() == 1.5", {"name": "1500m"}, True, id="float"),
        pytest.param("'%s-%d'.format([self.name, self.min]) == 'a-1'", {"name": "a", "min": 1}, True, id="format"),
        pytest.param("self.name.split(',').exists(p, p.trim() == 'b')", {"name": "a, b"}, True, id="strings"),
        pytest.param("sets.contains(self.tags, ['a'])", {"tags": ["a", "b"]}, True, id="sets"),
        pytest.param("!format.dns1123Label().validate(self.name).hasValue()", {"name": "A"}, False, id="formats"),
        pytest.param("self.tags.all(i, tag, tag == string(i))", {"tags": ["0", "1"]}, True, id="two-variables"),
        pytest.param("self.tags.transformList(i, tag, i) == [0, 1]", {"tags": ["a", "b"]}, True, id="transform-list"),
        pytest.param("self.map.transformMap(k, v, v + k) == {'a': 'ba'}", {"map": {"a": "b"}}, True,
                     id="transform-map"),
        pytest.param("self.tags.distinct().sort().reverse().slice(0, 1) == ['b']", {"tags": ["a", "b", "a"]}, True,
                     id="lists"),
        pytest.param("[[1], [2]].flatten() == lists.range(3).filter(n, n > 0)", {}, True, id="flatten-and-range"),
        pytest.param("self.ratio > 1 && 1u < self.ratio", {"ratio": 1.5}, True, id="numbers-of-two-types"),
        pytest.param("isSemver(self.name) && semver(self.name).isLessThan(semver('v2', true))", {"name": "1.9.0-rc.1"},
                     True, id="semantic-versions"),
        pytest.param("isSemver('1.0') || semver('1.2.3-a.10').compareTo(semver('1.2.3-a.9')) != 1", {}, False,
                     id="pre-releases"),
        pytest.param(f"isSemver('1.0.0-{'9' * 5000}') || isSemver('1.{2**64}.0')", {}, False,
                     id="numbers-out-of-range"),
        pytest.param("semver('01.2', true).minor() == 2 && semver('1.0.0+a').compareTo(semver('1.0.0+b')) == 0", {},
                     True, id="normalized-versions"),
        pytest.param("!format.named('dns1123Label').value().validate(self.name).hasValue()", {"name": "a"}, True,
                     id="named-format"),
        pytest.param("format.named('none').hasValue()", {}, False, id="no-such-format"),
    ],
)  # fmt: skip
async def test_rule_holds_or_not(api: Api, rule: str, spec: Json, holds: bool) -> None:
    await install(api, ruled(rule))
    reply = await api.call("POST", WIDGETS, widget("w", spec))
    assert reply.status == (201 if holds else 422), reply.body
    if not holds:
        message = f"Invalid value: failed rule: {rule}"
        assert reply.body["details"]["causes"] == [{"reason": "FieldValueInvalid", "message": message, "field": "spec"}]


async def test_rule_that_takes_too_long_for_an_object_is_its_error(api: Api) -> None:
    rule = "self.l.all(a, self.l.all(b, self.l.all(c, true)))"
    fields = {"l": {"type": "array", "maxItems": 200, "items": {"type": "integer"}}}
    schema = spec_schema(fields, **{"x-kubernetes-validations": [{"rule": rule}]})
    await api.post(DEFINITIONS, definition(version("v1", schema)))
    reply = await api.call("POST", WIDGETS, widget("w", {"l": list(range(200))}))
    assert (reply.status, reply.body["details"]["causes"][0]["message"]) == (
        422,
        "Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': "
        f"no further validation rules will be run due to call cost exceeds limit for rule: {rule}",
    )


@pytest.mark.parametrize(
    ("more", "reason", "field", "message"),
    [
        pytest.param({"message": " too big "}, "FieldValueInvalid", "spec", "Invalid value: too big", id="message"),
        pytest.param({"messageExpression": "'at most %d'.format([self.max])", "message": "no"}, "FieldValueInvalid",
                     "spec", "Invalid value: at most 1", id="expression"),
        pytest.param({"messageExpression": "self.name", "message": "so"}, "FieldValueInvalid", "spec",
                     "Invalid value: so", id="expression-without-value"),
        pytest.param({"message": "m", "reason": "FieldValueForbidden"}, "FieldValueForbidden", "spec", "Forbidden: m",
                     id="forbidden"),
        pytest.param({"message": "m", "reason": "FieldValueRequired", "fieldPath": ".name"}, "FieldValueRequired",
                     "spec.name", "Required value: m", id="required-at-a-path"),
        pytest.param({"message": "m", "fieldPath": ".map['a.b']"}, "FieldValueInvalid", "spec.map[a.b]",
                     "Invalid value: m", id="path-of-an-entry"),
    ],
)  # fmt: skip
async def test_broken_rule_says_what_it_was_told_to(
    api: Api, more: Json, reason: str, field: str, message: str
) -> None:
    await install(api, ruled("self.min <= self.max", **more))
    reply = await api.call("POST", WIDGETS, widget("w", {"min": 2, "max": 1}))
    assert reply.body["details"]["causes"] == [{"reason": reason, "message": message, "field": field}]


@pytest.mark.parametrize(
    ("rule", "spec", "message"),
    [
        pytest.param("self.min > 0", {}, 'Invalid value: "object": no such key: min evaluating rule: self.min > 0',
                     id="absent"),
        pytest.param("self.tags[3] == 'a'", {"tags": []},
                     "Invalid value: \"object\": index out of bounds: 3 evaluating rule: self.tags[3] == 'a'",
                     id="index"),
        pytest.param("1 / self.min > 0", {"min": 0},
                     'Invalid value: "object": division by zero evaluating rule: 1 / self.min > 0', id="division"),
        pytest.param("self.port > 3", {"port": "a"},
                     "Invalid value: \"object\": 'no such overload': call arguments did not match a supported "
                     "operator, function or macro signature for rule: self.port > 3", id="overload"),
    ],
)  # fmt: skip
async def test_rule_without_result_is_an_error(api: Api, rule: str, spec: Json, message: str) -> None:
    await install(api, ruled(rule))
    reply = await api.call("POST", WIDGETS, widget("w", spec))
    assert [cause["message"] for cause in reply.body["details"]["causes"]] == [message]


async def test_scalar_that_breaks_its_rule_is_shown(api: Api) -> None:
    schema = spec_schema({"x": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0"}]}})
    await install(api, schema)
    reply = await api.call("POST", WIDGETS, widget("w", {"x": 3}))
    assert reply.body["message"] == 'Widget.ex.io "w" is invalid: spec.x: Invalid value: 3: failed rule: self % 2 == 0'


async def test_rule_of_a_list_of_times_compares_them(api: Api) -> None:
    rule = {"rule": "self.all(t, t < timestamp('2026-01-01T00:00:00Z'))"}
    times = {**FIELDS["times"], "x-kubernetes-validations": [rule]}
    await install(api, spec_schema({"x": times}))
    await api.post(WIDGETS, widget("w", {"x": ["2025-01-01T00:00:00Z"]}))
    assert await patched(api, {"x": ["2027-01-01T00:00:00Z"]}) == [
        ("spec.x", f"Invalid value: failed rule: {rule['rule']}")
    ]


async def test_rules_wait_for_a_valid_object(api: Api) -> None:
    await install(api, ruled("self.min <= self.max"))
    reply = await api.call("POST", WIDGETS, widget("w", {"min": "a", "max": 0}))
    assert reply.body["details"]["causes"][-1] == {
        "reason": "FieldValueInvalid",
        "message": "Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation",
        "field": "<nil>",
    }


async def test_transition_rules_need_an_old_value(api: Api) -> None:
    fixed = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]}
    await install(api, spec_schema({"x": fixed, "y": TEXT}))
    await api.post(WIDGETS, widget("w", {}))
    assert await patched(api, {"x": "a"}) == []
    assert await patched(api, {"x": "b"}) == [("spec.x", 'Invalid value: "b": is immutable')]
    assert await patched(api, {"x": None}) == []
    assert await patched(api, {"x": "c"}) == []


async def test_optional_old_value_makes_a_rule_of_create(api: Api) -> None:
    await install(api, ruled("oldSelf.hasValue() || self.min == 1", optionalOldSelf=True, message="begins with 1"))
    reply = await api.call("POST", WIDGETS, widget("n", {"min": 2}))
    assert reply.body["details"]["causes"][0]["message"] == "Invalid value: begins with 1"
    await api.post(WIDGETS, widget("w", {"min": 1}))
    assert await patched(api, {"min": 5}) == []


async def test_items_of_list_maps_keep_their_identity(api: Api) -> None:
    grows = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}
    item = {**ITEM, "properties": {"k": TEXT, "v": grows}}
    listed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    await install(api, spec_schema({"list": listed}))
    await api.post(WIDGETS, widget("w", {"list": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]}))
    moved = [{"k": "c", "v": 0}, {"k": "b", "v": 1}, {"k": "a", "v": 4}]
    assert await patched(api, {"list": moved}) == [("spec.list[2].v", "Invalid value: 4: failed rule: self >= oldSelf")]


async def test_unchanged_value_is_not_held_against_a_new_rule(api: Api) -> None:
    await install(api, spec_schema({"x": TEXT, "y": TEXT}))
    await api.post(WIDGETS, widget("w", {"x": "bad"}))
    ruled_x = {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'"}]}
    schema = spec_schema({"x": ruled_x, "y": TEXT})
    await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": {"versions": [version("v1", schema)]}})
    assert await patched(api, {"y": "z"}) == []
    assert (await api.call("POST", WIDGETS, widget("n", {"x": "bad"}))).status == 422


async def test_cost_of_all_rules_is_refused_with_the_four_highest(api: Api) -> None:
    # Each of them is within its own limit.
    rules = [{"rule": f"self.tags.all(t, t != '{one}')"} for one in range(11)]
    tags = {"type": "array", "items": {"type": "array", "items": TEXT, "maxItems": 10}, "maxItems": 800_000}
    inner = {"type": "object", "properties": {"tags": tags}, "x-kubernetes-validations": rules}
    schema = spec_schema({"l": {"type": "array", "items": inner, "maxItems": 12}})
    reply = await api.call("POST", DEFINITIONS, definition(version("v1", schema)))
    causes = [(one["field"].rpartition(".")[2], one["message"]) for one in reply.body["details"]["causes"]]
    words = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    assert [cause for cause in causes if cause[0] == "rule"] == [("rule", f"Forbidden: {words}")] * 4
    total = "Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget"
    assert causes[-1][0] == "openAPIV3Schema"
    assert causes[-1][1].startswith(total)
