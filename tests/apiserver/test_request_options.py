"""Options that are empty, repeated or of the wrong form, and media types: as kube-apiserver 1.36.2 answers them.

Source: k8s.io/apimachinery/pkg/apis/meta/{v1,internalversion}/validation/validation.go; k8s.io/apiserver/pkg/endpoints/
handlers/{delete,response}.go; go-restful, jsr311.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, config_map
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, version

pytestmark = pytest.mark.kcr_virtual
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = f"{CONFIG_MAPS}/a"
EMPTY = 'strconv.ParseInt: parsing "": invalid syntax'
X = 'strconv.ParseInt: parsing "x": invalid syntax'
NOT_VERSION = 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'
LIST = 'ListOptions.meta.k8s.io "" is invalid: '
MATCH = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden "
DRY = 'dryRun: Unsupported value: [{}]: supported values: "All"'
POLICY = 'propagationPolicy: Unsupported value: "{}": supported values: "Foreground", "Background", "Orphan", "nil"'
BOTH = 'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set'


async def said(api: Api, method: str, target: str, body: object = b"", **headers: str) -> tuple[int, str]:
    """Return the code, and the message of a failure."""
    reply = await api.call(method, target, body, **headers)
    return reply.status, reply.body["message"] if reply.status >= 400 else ""


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        (f"{CONFIG_MAPS}?limit=", 400, EMPTY),
        (f"{CONFIG_MAPS}?timeoutSeconds=", 400, EMPTY),
        (f"{CONFIG_MAPS}?timeoutSeconds=x", 400, X),
        (f"{CONFIG_MAPS}?watch=1&timeoutSeconds=x", 400, X),
        (f"{CONFIG_MAPS}?watch=1&limit=x", 400, X),
        (f"{CONFIG_MAPS}?timeout=-1s", 200, ""),
        (f"{CONFIG_MAPS}?limit=1&limit=x", 200, ""),
        (f"{CONFIG_MAP}?timeout=-1s", 200, ""),
        (f"{CONFIG_MAP}?resourceVersion=x", 500, NOT_VERSION),
        (f"{CONFIG_MAPS}?watch=1&resourceVersion=x", 500, NOT_VERSION),
        (f"{CONFIG_MAPS}?resourceVersion=x", 400, f"invalid resource version: {NOT_VERSION}"),
        (f"{CONFIG_MAPS}?resourceVersionMatch=x", 422,
         f"{LIST}[{MATCH}unless resourceVersion is provided, resourceVersionMatch: Unsupported value: \"x\": supported "
         'values: "Exact", "NotOlderThan", ""]'),
        (f"{CONFIG_MAPS}?watch=1&resourceVersionMatch=Exact", 422,
         f"{LIST}[{MATCH}for watch unless sendInitialEvents is provided, resourceVersionMatch: Unsupported value: "
         '"Exact": supported values: "NotOlderThan"]'),
        (f"{CONFIG_MAPS}?watch=1&continue=x", 422, f"{LIST}{MATCH}when continue is provided"),
        (f"{CONFIG_MAPS}?continue=x", 400,
         "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"),
        (f"{CONFIG_MAPS}?continue=YWJjZA==", 400,
         "invalid continue token: continue key is not valid: illegal base64 data at input byte 6"),
        (f"{CONFIG_MAPS}?continue=eyJ2IjoieCJ9", 400,
         "invalid continue token: continue key is not valid: server does not recognize this encoded version x"),
    ],
)  # fmt: skip
async def test_options_of_reads_are_checked_as_upstream_does(api: Api, target: str, code: int, message: str) -> None:
    """Source: cel-and-bodies.md, B11."""
    await api.post(CONFIG_MAPS, config_map("a"))
    assert await said(api, "GET", target) == (code, message)


@pytest.mark.parametrize(("query", "shown"), [("dryRun=", '""'), ("dryRun", '""'), ("dryRun=All&dryRun=", '"All",""')])
async def test_empty_dry_run_is_refused(api: Api, query: str, shown: str) -> None:
    """Source: cel-and-bodies.md, B11."""
    await api.post(CONFIG_MAPS, config_map("a"))
    for method, target, body, options in (
        ("POST", CONFIG_MAPS, config_map("b"), "CreateOptions"), ("PUT", CONFIG_MAP, config_map("a"), "UpdateOptions"),
        ("PATCH", CONFIG_MAP, {}, "PatchOptions"), ("DELETE", CONFIG_MAP, b"", "DeleteOptions"),
    ):  # fmt: skip
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = await said(api, method, f"{target}?{query}", body, content_type=media)
        assert answer == (422, f'{options}.meta.k8s.io "" is invalid: {DRY.format(shown)}')
    assert (await said(api, "DELETE", f"{CONFIG_MAP}?dryRun=All&dryRun=All"))[0] == 200


@pytest.mark.parametrize(
    ("query", "body", "code", "message"),
    [
        ("propagationPolicy=", None, 422, POLICY.format("")),
        ("gracePeriodSeconds=", None, 400, EMPTY),
        ("orphanDependents=true&propagationPolicy=Orphan", None, 422, BOTH),
        ("propagationPolicy=Orphan&propagationPolicy=x", None, 200, ""),
        ("", {"propagationPolicy": ""}, 422, POLICY.format("")),
        ("", {"propagationPolicy": None}, 200, ""),
        ("", {"orphanDependents": True, "propagationPolicy": "Orphan"}, 422, BOTH),
        ("", {"dryRun": ["All", "All"]}, 200, ""),
        ("", {"dryRun": "All"}, 400,
         "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string"),
        ("", {"preconditions": {"uid": ""}}, 409, "the UID in the precondition () does not match the UID in record"),
        ("", {"preconditions": {"resourceVersion": ""}}, 409, "the ResourceVersion in the precondition () does not"),
        ("", {"preconditions": {}}, 200, ""),
    ],
)  # fmt: skip
async def test_options_of_a_deletion_are_checked_as_upstream_does(
    api: Api, query: str, body: Any, code: int, message: str
) -> None:
    """Source: cel-and-bodies.md, B11."""
    await api.post(CONFIG_MAPS, config_map("a"))
    found, told = await said(api, "DELETE", f"{CONFIG_MAP}?{query}", b"" if body is None else body)
    assert (found, message in told) == (code, True), told


METADATA, LIST_METADATA = (f"application/json;as=PartialObjectMetadata{end};g=meta.k8s.io;v=v1" for end in ("", "List"))
NO_ROUTE = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf"
)
OF_LIST = "you requested PartialObjectMetadata, but the requested object is a list (*{})"
OF_ONE = "you requested PartialObjectMetadataList, but the requested object is not a list (*{})"


@pytest.mark.parametrize("accept", ["application/*", "text/plain", "application/*;as=Table;g=meta.k8s.io;v=v1"])
async def test_patterns_of_media_types_are_not_acceptable(api: Api, accept: str) -> None:
    """Source: cel-and-bodies.md, B12."""
    streams = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    assert await said(api, "GET", CONFIG_MAPS, accept=accept) == (406, NO_ROUTE + streams)
    assert await said(api, "POST", CONFIG_MAPS, config_map("a"), accept=accept) == (406, NO_ROUTE)
    assert (await api.get(CONFIG_MAPS, accept="*/*"))["items"] == []


async def test_metadata_are_those_of_what_is_sent(api: Api) -> None:
    """Source: cel-and-bodies.md, B12."""
    await api.post(CONFIG_MAPS, config_map("a"))
    await api.post(DEFINITIONS, definition(version("v1", {"type": "object"})))
    assert await said(api, "GET", CONFIG_MAPS, accept=METADATA) == (406, OF_LIST.format("core.ConfigMapList"))
    assert await said(api, "GET", WIDGETS, accept=METADATA) == (406, OF_LIST.format("unstructured.UnstructuredList"))
    assert await said(api, "GET", CONFIG_MAP, accept=LIST_METADATA) == (406, OF_ONE.format("core.ConfigMap"))
    assert (await api.get(CONFIG_MAPS, accept=LIST_METADATA))["kind"] == "PartialObjectMetadataList"
    assert (await api.get(CONFIG_MAP, accept=METADATA))["kind"] == "PartialObjectMetadata"
    assert (await api.get(WIDGETS, accept="application/*"))["kind"] == "WidgetList"
