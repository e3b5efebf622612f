"""Operators written with other libraries run unmodified against the embedded cluster."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
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


@pytest.mark.soak
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


@pytest.mark.soak
async def test_webhooks_of_kopf_review_objects(serve: Serve, environment: Mapping[str, str], tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    certificate.private_key_pem.write_to_path(tmp_path / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    async with serve() as kubeconfig:
        kubectl, output = Kubectl(kubeconfig, environment), tmp_path / "operator.out"
        (tmp_path / "crd.yaml").write_text(yaml.safe_dump(DEFINITION))
        await kubectl(f"apply -f {tmp_path / 'crd.yaml'}")
        given = {"KUBECONFIG": str(kubeconfig), "CERTIFICATES": str(tmp_path)}
        program = ["-m", "kopf", "run", "--standalone", "--namespace=default"]
        command = [sys.executable, *program, str(OPERATORS / "webhooks_with_kopf.py")]
        async with operator(command, {**os.environ, **environment, **given}, output) as process:

            async def configured() -> bool:
                assert process.returncode is None, output.read_text()
                url = "jsonpath={.items[*].webhooks[*].clientConfig.url}"
                found = await kubectl(f"get validatingwebhookconfigurations,mutatingwebhookconfigurations -o {url}")
                return found.count("https://127.0.0.1") == 2

            await eventually(configured, seconds=30)
            for colour in ("red", "green", "pink"):
                widget = {**WIDGET, "metadata": {"name": colour}, "spec": {"colour": colour}}
                (tmp_path / f"{colour}.yaml").write_text(yaml.safe_dump(widget))
            await kubectl(f"create -f {tmp_path / 'red.yaml'}")
            assert await kubectl("get widget red --output=jsonpath={.metadata.labels}") == '{"painted":"yes"}'
            refused = await kubectl(f"create -f {tmp_path / 'green.yaml'}", code=1)
            assert 'admission webhook "check.auto.kopf.dev" denied the request: green is sold out' in refused
            assert "pink fades" in await kubectl(f"create -f {tmp_path / 'pink.yaml'}")
            await kubectl("delete widgets --all")
        # Killed, it left its configurations behind: their failures are errors.
        refused = await kubectl(f"create -f {tmp_path / 'red.yaml'} --dry-run=server", code=1)
        assert "connect: connection refused" in refused
