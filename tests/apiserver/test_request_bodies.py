"""Bodies that are null, of another type, or cannot be read: the answers are those of kube-apiserver 1.36.2.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,delete,rest}.go; sigs.k8s.io/json;
sigs.k8s.io/yaml.
"""

from typing import Any

import pytest
import pytest_asyncio

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, version

pytestmark = pytest.mark.kcr_virtual
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
YAML = "application/yaml"
UNRECOGNIZED = "the object provided is unrecognized (must be of type {}): {}"
NO_KIND = "couldn't get version/kind; json parse error: "
NO_NAME = 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
STRUCT = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
HEAD = b"apiVersion: ex.io/v1\nkind: Widget\nmetadata: {name: a}\n"


@pytest_asyncio.fixture
async def served(api: Api) -> Api:
    """Serve Widgets, which may hold anything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await api.post(DEFINITIONS, definition(version("v1", anything)))
    return api


def said(of: str, why: str, shown: str) -> str:
    return UNRECOGNIZED.format(of, f"{why} ({shown})")


@pytest.mark.parametrize(
    ("target", "body", "media", "answer"),
    [
        (CONFIG_MAPS, b"null", "", (422, NO_NAME)),
        (CONFIG_MAPS, b"# nothing\n", YAML, (422, NO_NAME)),
        (CONFIG_MAPS, b"", YAML, (422, NO_NAME)),
        (CONFIG_MAPS, b"", "", (400, said("ConfigMap", f"{NO_KIND}unexpected end of JSON input", "<empty>"))),
        (WIDGETS, b"null", "", (400, said("Widget", "Object 'Kind' is missing in 'null'", "6e756c6c"))),
        (WIDGETS, b"", YAML, (400, said("Widget", "Object 'Kind' is missing in ''", "<empty>"))),
        (WIDGETS, b"? a", YAML, (400, said("Widget", "Object 'Kind' is missing in '? a'", "3f2061"))),
        (CONFIG_MAPS, b"[]", "",
         (400, said("ConfigMap", f"{NO_KIND}json: cannot unmarshal array into Go value of type {STRUCT}", "5b5d"))),
        (CONFIG_MAPS, b'{"a":1,}', "",
         (400, said("ConfigMap", f"{NO_KIND}invalid character '}}' looking for beginning of object key string",
                    '{"a":1,}'))),
        (CONFIG_MAPS, b'{"apiVersion":"a/b/c","kind":"ConfigMap"}', "",
         (400, said("ConfigMap", "unexpected GroupVersion string: a/b/c", '{"apiVersion":"a/b/c","kind":" ...'))),
        (CONFIG_MAPS, b"a: {b: c]}", YAML,
         (400, said("ConfigMap", "yaml: did not find expected ',' or '}'", "613a207b623a20635d7d"))),
        (WIDGETS, HEAD + b"spec: {null: 1}", YAML,
         (400, said("Widget", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 1",
                    "61706956657273696f6e3a2065782e696f2f76310a6b696e643a20576964 ..."))),
    ],
)  # fmt: skip
async def test_body_without_an_object_is_refused_as_upstream(
    served: Api, target: str, body: bytes, media: str, answer: tuple[int, str]
) -> None:
    reply = await served.call("POST", target, body, content_type=media or "application/json")
    assert (reply.status, reply.body["message"]) == answer
    assert (await served.get(target))["items"] == []


@pytest.mark.parametrize(
    ("target", "head", "answer"),
    [
        (CONFIG_MAPS, {"apiVersion": "apps/v1", "kind": "Deployment"},
         'Deployment in version "v1" cannot be handled as a ConfigMap: converting (v1.Deployment) to (core.ConfigMap): '
         "unknown conversion"),
        (CONFIG_MAPS, {"apiVersion": "apps/v1"}, 'no kind "ConfigMap" is registered for version "apps/v1" in scheme'),
        (CONFIG_MAPS, {"apiVersion": "v2", "kind": "ConfigMap"}, 'no kind "ConfigMap" is registered for version "v2"'),
        (CONFIG_MAPS, {"apiVersion": "ex.io/v1", "kind": "Widget"},
         'no kind "Widget" is registered for version "ex.io/v1"'),
        (CONFIG_MAPS, {"kind": "ConfigMapList"}, "converting (v1.ConfigMapList) to (core.ConfigMap): unknown"),
        (CONFIG_MAPS, {"kind": "List", "apiVersion": "v1"}, "converting (v1.List) to (core.ConfigMap)"),
        (CONFIG_MAPS, {"kind": "Status", "apiVersion": "v1"}, "converting (v1.Status) to (core.ConfigMap)"),
        (REVIEWS, {"kind": "Pod", "apiVersion": "v1"}, "converting (v1.Pod) to (authorization.SubjectAccessReview)"),
        ("/api/v1/namespaces/default/events", {"kind": "Event", "apiVersion": "events.k8s.io/v1"},
         "the API version in the data (events.k8s.io/v1) does not match the expected API version (v1)"),
        (WIDGETS, {"kind": "Widget"},
         "the API version in the data () does not match the expected API version (ex.io/v1)"),
        (WIDGETS, {"kind": "Pod", "apiVersion": "v1"},
         "the API version in the data (v1) does not match the expected API version (ex.io/v1)"),
    ],
)  # fmt: skip
async def test_object_of_another_type_is_refused_by_what_it_is(
    served: Api, target: str, head: dict[str, str], answer: str
) -> None:
    reply = await served.call("POST", target, {**head, "metadata": {"name": "a"}})
    assert (reply.status, answer in reply.body["message"]) == (400, True), reply.body


@pytest.mark.parametrize(
    ("body", "media", "answer"),
    [
        (b"null", "", (404, 'configmaps "a" not found')),
        (b"null", YAML, (404, 'configmaps "a" not found')),
        (b"x", "", (400, f"{NO_KIND}invalid character 'x' looking for beginning of value")),
        (b"1", "", (400, f"{NO_KIND}json: cannot unmarshal number into Go value of type {STRUCT}")),
        (b'{"apiVersion":"a/b/c"}', "", (400, "unexpected GroupVersion string: a/b/c")),
        (b"a: ]", YAML, (400, "yaml: did not find expected node content")),
    ],
)
async def test_options_of_a_delete_are_read_as_upstream(
    api: Api, body: bytes, media: str, answer: tuple[int, str]
) -> None:
    reply = await api.call("DELETE", f"{CONFIG_MAPS}/a", body, content_type=media or "application/json")
    assert (reply.status, reply.body["message"]) == answer


@pytest.mark.parametrize(
    ("escaped", "stored"),
    [
        (r"\ud800", "\ufffd"),
        (r"\udc00\ud800x\ud83d\ude00\ud83d", "\ufffd\ufffdx\U0001f600\ufffd"),
        (r"\\ud800", r"\ud800"),
    ],
)
async def test_half_a_pair_of_escapes_becomes_the_replacement_character(served: Api, escaped: str, stored: str) -> None:
    body = '{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"a":"%s","%s":1}}'
    reply = await served.call("POST", WIDGETS, (body % (escaped, escaped)).encode())
    assert (reply.status, reply.body["spec"]) == (201, {"a": stored, stored: 1})


async def test_rest_of_a_yaml_stream_is_ignored(served: Api) -> None:
    reply = await served.call("POST", WIDGETS, HEAD + b"spec: {a: 1, a: 2}\n---\n{{{", content_type=YAML)
    assert (reply.status, reply.body["spec"]) == (201, {"a": 2})
    assert reply.headers["Warning"] == '299 - "line 4: key \\"a\\" already set in map"'


async def test_keys_that_yaml_has_twice_are_told(api: Api) -> None:
    body = b"metadata: {name: a}\ndata: {a: b, a: c, yes: '1', on: '2'}\nfoo: 1\n"
    reply = await api.call("POST", f"{CONFIG_MAPS}?dryRun=All", body, content_type=YAML)
    told = ['line 2: key \\"a\\" already set in map', "line 2: key true already set in map", 'unknown field \\"foo\\"']
    assert reply.headers["Warning"] == ", ".join(f'299 - "{text}"' for text in told)
    strict = await api.call("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", body, content_type=YAML)
    assert (strict.status, strict.body["message"]) == (400, (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n'
        '  line 2: key "a" already set in map\n  line 2: key true already set in map, unknown field "foo"'
    ))  # fmt: skip


async def test_yaml_values_are_stored_as_upstream_reads_them(served: Api) -> None:
    """Source: cel-and-bodies.md, B1 and B2; the table is `tests/unit/test_yaml_json.py`."""
    body = HEAD + b"spec: {a: 12:30, b: 1e3, c: y, d: 0o17, e: ! 12, 08: !!binary aGk=}"
    spec: Any = (await served.call("POST", WIDGETS, body, content_type=YAML)).body["spec"]
    assert spec == {"a": "12:30", "b": 1000, "c": True, "d": 15, "e": "12", "8": "hi"}
    assert isinstance(spec["b"], int)
