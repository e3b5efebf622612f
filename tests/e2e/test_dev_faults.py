"""`kcr dev --faults`: what a client in another process meets, and the commands of the guide that change it."""

import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, HttpTransport, load_config
from kcr.errors import ConflictError
from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import ROOT, Start
from tests.kit.documents import blocks

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

GUIDE = blocks(ROOT / "docs" / "guide" / "dev-cluster.md")
(FILE,) = (block.text for block in GUIDE if block.language == "yaml")
WITH_KUBECTL, WITH_CURL = (block.text for block in GUIDE if block.language == "console")
OPTIONS = ("dev", "--no-controllers", "--runtime", "simulated")
PATCH = {"data": {"k": "v"}}


@pytest.mark.soak
async def test_client_in_another_process_meets_the_rules_of_the_file(kcr: Start, tmp_path: Path) -> None:
    file, key = tmp_path / "faults.yaml", Key("default", "a")
    file.write_text("faults:\n- {verb: patch, resource: configmaps, perObject: true, times: 2, fail: 409}\n")
    async with kcr(*OPTIONS, "--faults", str(file)) as dev:
        config = load_config(kubeconfig=str(await dev.kubeconfig()))
        async with HttpTransport(config) as transport:
            client = Client(transport)
            await client.create(ConfigMap(metadata=ObjectMeta(name=key.name, namespace=key.namespace)))
            for _ in range(2):
                with pytest.raises(ConflictError):
                    await client.merge_patch(ConfigMap, key, PATCH)
            assert (await client.merge_patch(ConfigMap, key, PATCH)).data == {"k": "v"}
            shown = json.loads(await client.request("GET", "/debug/kcr/faults"))
            assert [(one["matched"], one["met"]) for one in shown["faults"]] == [(3, 2)]


async def answers(commands: str, kubeconfig: Path, environment: Mapping[str, str], folder: Path) -> list[Any]:
    """Run commands as a reader would paste them, and return what they print, in lines of JSON."""
    script = "set -e\n" + "".join(line.removeprefix("$ ") for line in commands.splitlines(keepends=True))
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, cwd=folder, env={**os.environ, **environment, "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return [json.loads(line)["faults"] for line in out.splitlines()]


@pytest.mark.soak
@NEEDS_KUBECTL
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on the PATH")
async def test_commands_of_the_guide_change_the_faults(
    kcr: Start, environment: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "faults.yaml").write_text(FILE)
    async with kcr(*OPTIONS) as dev:
        kubeconfig = await dev.kubeconfig()
        added, shown, one, rest = await answers(WITH_KUBECTL, kubeconfig, environment, tmp_path)
        assert [rule["number"] for rule in added] == [rule["number"] for rule in shown] == [1, 2, 3, 4, 5]
        assert [rule["number"] for rule in one + rest] == [2, 1, 3, 4, 5]
        added, shown, removed = await answers(WITH_CURL, kubeconfig, environment, tmp_path)
        assert added == shown == removed
        assert len(added) == 5


@pytest.mark.soak
@NEEDS_KUBECTL
async def test_fields_without_effect_are_shown_to_those_who_apply_them(
    kcr: Start, environment: Mapping[str, str], tmp_path: Path
) -> None:
    file, spec = tmp_path / "pod.json", {"containers": [{"name": "c", "image": "busybox:1", "command": ["true"]}]}
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    field = "Warning: spec.securityContext.runAsUser: has no effect in kcr dev: processes run as the current user"
    file.write_text(json.dumps({**pod, "spec": {**spec, "securityContext": {"runAsUser": 12345}}}))
    async with kcr("dev", "-f", str(file)) as dev:
        kubectl = Kubectl(await dev.kubeconfig(), environment)
        await eventually(lambda: field in dev.err)
        await kubectl(f"delete -f {file} --now")
        assert field in await kubectl(f"create -f {file}")
