"""Operators written with other libraries run unmodified against the embedded cluster."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]

OPERATORS = Path(__file__).parent / "operators"
STRING = {"type": "string"}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "required": ["colour"], "properties": {"colour": STRING}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}  # fmt: skip
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "door"}, "spec": {"colour": "red"}}


@asynccontextmanager
async def operator(
    command: list[str], environment: Mapping[str, str], output: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    with output.open("wb") as out:
        process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=out, stderr=out)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["-m", "kopf", "run", "--standalone", "--namespace=default", "with_kopf.py"], id="kopf"),
        pytest.param(["with_lightkube.py"], id="lightkube", marks=pytest.mark.soak),
        pytest.param(["with_kr8s.py"], id="kr8s", marks=pytest.mark.soak),
    ],
)
async def test_operator_of_a_custom_resource_runs(
    serve: Serve, environment: Mapping[str, str], tmp_path: Path, command: list[str]
) -> None:
    async with serve() as kubeconfig:
        kubectl, output = Kubectl(kubeconfig, environment), tmp_path / "operator.out"
        (tmp_path / "crd.yaml").write_text(yaml.safe_dump(DEFINITION))
        (tmp_path / "widget.yaml").write_text(yaml.safe_dump(WIDGET))
        await kubectl(f"apply -f {tmp_path / 'crd.yaml'}")
        program = [sys.executable, *(str(OPERATORS / part) if part.endswith(".py") else part for part in command)]
        async with operator(program, {**os.environ, **environment, "KUBECONFIG": str(kubeconfig)}, output) as process:
            await kubectl(f"apply -f {tmp_path / 'widget.yaml'}")

            async def painted(colour: str) -> bool:
                assert process.returncode is None, output.read_text()
                return await kubectl("get widget door --output=jsonpath={.status.painted}") == colour

            await eventually(lambda: painted("red"), seconds=30)
            await kubectl("patch widget door --type=merge --patch", '{"spec":{"colour":"blue"}}')
            await eventually(lambda: painted("blue"), seconds=30)
            # The operator's finalizer holds the object until it has seen the deletion.
            await kubectl("delete widget door --timeout=30s")
            assert "buried door" in output.read_text()
