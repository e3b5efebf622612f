"""The differential table, on the embedded server; where `KUBEBUILDER_ASSETS` names a kube-apiserver, there too.

Source: kubernetes/pkg/apis/core/validation/validation.go and the defaults and admission plugins that rows are about.
"""

import os
from typing import Any

import msgspec
import pytest

from kcr.client.wire.transport import Request
from kcr_devcluster.testing.controlplane import ApiServer, find_assets
from tests.kit.api import Api
from tests.kit.differential import Row, Section, mismatch, rows, sections

SECTIONS = sections()
ROWS = [pytest.param(row, id=f"{section.name}-{row.name}") for section in SECTIONS for row in rows(section)]


def test_table_has_rows_enough_and_no_name_twice() -> None:
    names = [param.id for param in ROWS]
    assert len(set(names)) == len(names) >= 400


@pytest.mark.kcr_virtual
@pytest.mark.parametrize("row", ROWS)
async def test_request_is_answered_as_by_the_real_server(api: Api, row: Row) -> None:
    async def send(method: str, target: str, body: Any) -> tuple[int, Any]:
        reply = await api.call(method, target, body)
        return reply.status, reply.body

    for given in row.section.given:
        await api.post(given.path.replace("{ns}", "default"), given.object)
    assert await mismatch(send, "default", row) == ""


if find_assets(os.environ) is not None:

    @pytest.mark.kcr_integration
    @pytest.mark.asyncio
    @pytest.mark.timeout(120)
    @pytest.mark.parametrize("section", [pytest.param(section, id=section.name) for section in SECTIONS])
    async def test_real_server_answers_as_the_table_says(kcr_apiserver: ApiServer, section: Section) -> None:
        async def send(method: str, target: str, body: Any) -> tuple[int, Any]:
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            request = Request(method, target, headers, msgspec.json.encode(body))
            async with kcr_apiserver.transport.send(request) as response:
                return response.status, msgspec.json.decode(await response.read())

        for given in section.given:
            code, body = await send("POST", given.path.replace("{ns}", kcr_apiserver.namespace), given.object)
            assert code == 201, body
        found = {row.name: await mismatch(send, kcr_apiserver.namespace, row) for row in rows(section)}
        assert {name: why for name, why in found.items() if why} == {}
