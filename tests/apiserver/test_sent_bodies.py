"""JSON on the wire as Go's encoder writes it: characters with a meaning in HTML and line separators are escapes."""

import pytest

from kcr_devcluster.apiserver.server import HTTPRequest
from tests.kit.api import TABLE, Api, config_map
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, version, widget

pytestmark = pytest.mark.kcr_virtual
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TEXT = 'a<b>&\u2028\u2029é\x7f\x01\b\f\n\\/"'
SENT = rb"a\u003cb\u003e\u0026\u2028\u2029" + "é\x7f".encode() + rb"\u0001\b\f\n\\/\""
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


async def sent(api: Api, target: str, accept: str = "application/json") -> bytes:
    reply = await api.server.handle(HTTPRequest("GET", target, {"accept": accept}))
    assert isinstance(reply.body, bytes)
    return reply.body


async def test_html_is_escaped_in_every_response(api: Api) -> None:
    """Source: cel-and-bodies.md, B23; Go's encoding/json, encode.go."""
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a", "annotations": {"t": TEXT}}, "data": {"t": TEXT}})
    assert (await sent(api, f"{CONFIG_MAPS}/a")).count(SENT) == 2
    assert (await sent(api, CONFIG_MAPS)).count(SENT) == 2
    for target, accept in ((f"{CONFIG_MAPS}/a", METADATA), (CONFIG_MAPS, TABLE)):
        assert SENT in await sent(api, target, accept)
    assert rb'"message":"configmaps \"\u003c\" not found"' in await sent(api, f"{CONFIG_MAPS}/%3C")
    assert (await api.get(f"{CONFIG_MAPS}/a"))["data"] == {"t": TEXT}
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion=0&")
    await api.patch(f"{CONFIG_MAPS}/a", {"data": {"t": "<"}})
    assert [(await events.next())["object"]["data"]["t"] for _ in range(2)] == [TEXT, "<"]
    await events.close()


async def test_escapes_count_for_the_size_of_custom_resources_only(api: Api) -> None:
    """Built-in kinds are stored as protobuf, which has no escapes."""
    large = "<" * 900_000
    await api.post(CONFIG_MAPS, {**config_map("a"), "data": {"a": large}})
    assert len(await sent(api, f"{CONFIG_MAPS}/a")) > 6 * len(large)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await api.post(DEFINITIONS, definition(version("v1", anything)))
    reply = await api.call("POST", WIDGETS, widget("a", {"t": "<" * 300_000}))
    assert (reply.status, reply.body["message"]) == (500, "etcdserver: request is too large")
    await api.post(WIDGETS, widget("a", {"t": "a" * 300_000}))
