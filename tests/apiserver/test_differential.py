"""The differential table, on the embedded server; where `KUBEBUILDER_ASSETS` names a kube-apiserver, there too.

Source: kubernetes/pkg/apis/core/validation/validation.go and the defaults and admission plugins that rows are about.
"""

import os
from typing import Any

import msgspec
import pytest

from kcr.client.wire.transport import Request
from kcr.testing import eventually
from kcr_devcluster.testing.controlplane import ApiServer, find_assets
from tests.kit.api import Api
from tests.kit.differential import Section, Send, mismatch, rows, sections

SECTIONS = [pytest.param(section, id=section.name) for section in sections()]


def test_table_has_rows_enough_and_no_name_twice() -> None:
    names = [(section.name, row.name) for section in sections() for row in rows(section)]
    assert len(set(names)) == len(names) >= 1100


async def mismatches(send: Send, namespace: str, section: Section) -> dict[str, str]:
    """Run the rows of a section, and return how the answers differ, by the name of the row."""
    for given in section.given:
        code, body = await send("POST", given.path.replace("{ns}", namespace), given.object)
        assert code == 201, body

    async def is_served() -> bool:
        return (await send("GET", section.path.replace("{ns}", namespace), None))[0] != 404

    # A real server serves a kind some time after its definition came.
    await eventually(is_served)
    return {row.name: why for row in rows(section) if (why := await mismatch(send, namespace, row))}


@pytest.mark.kcr_virtual
@pytest.mark.parametrize("section", SECTIONS)
async def test_requests_are_answered_as_by_the_real_server(api: Api, section: Section) -> None:
    async def send(method: str, target: str, body: Any) -> tuple[int, Any]:
        reply = await api.call(method, target, body)
        return reply.status, reply.body

    assert await mismatches(send, "default", section) == {}


if find_assets(os.environ) is not None:

    @pytest.mark.kcr_integration
    @pytest.mark.asyncio
    @pytest.mark.timeout(120)
    @pytest.mark.parametrize("section", SECTIONS)
    async def test_real_server_answers_as_the_table_says(kcr_apiserver: ApiServer, section: Section) -> None:
        async def send(method: str, target: str, body: Any) -> tuple[int, Any]:
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            request = Request(method, target, headers, msgspec.json.encode(body))
            async with kcr_apiserver.transport.send(request) as response:
                return response.status, msgspec.json.decode(await response.read())

        assert await mismatches(send, kcr_apiserver.namespace, section) == {}
