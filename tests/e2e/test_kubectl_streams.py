"""The real kubectl into the pods of `kcr dev`: exec, attach, run, port-forward, cp, and what is refused."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import yaml

from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import ROOT, Serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]

SERVE = """
import http.server
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print("port", server.server_port, flush=True)
server.serve_forever()
"""


@pytest_asyncio.fixture
async def kubectl(serve: Serve, environment: Mapping[str, str]) -> AsyncIterator[Kubectl]:
    async with serve(runtime="process") as path:
        yield Kubectl(path, environment)


async def run_pod(kubectl: Kubectl, folder: Path, name: str, command: list[str], **container: object) -> None:
    """Create a pod of one container `main`, and wait until it is ready."""
    spec = {
        "terminationGracePeriodSeconds": 0, "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "python", "command": command, **container}],
    }  # fmt: skip
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}))
    await kubectl(f"apply -f {file}")
    await kubectl(f"wait --for=condition=Ready pod/{name} --timeout=60s")


async def test_exec_has_exit_code_input_and_a_terminal(kubectl: Kubectl, tmp_path: Path) -> None:
    await run_pod(kubectl, tmp_path, "a", ["sleep", "600"])
    text = await kubectl("exec a --", "sh", "-c", "echo out; exit 7", code=7)
    assert text == "out\ncommand terminated with exit code 7\n"
    assert (await kubectl("exec -i a -- wc -c", typed="x" * 300_000)).strip() == "300000"
    script = 'echo "ready $TERM"; read x; echo "<$x>"; exit 5'
    shown = await kubectl.in_terminal("exec -it a -- sh -c", script, wait_for="ready xterm", typed="hi\n", code=5)
    assert "<hi>" in shown
    text = await kubectl("exec a -- no-such-program", code=1)
    assert text.endswith('exec: "no-such-program": executable file not found in $PATH\n')
    assert "container z is not valid for pod a" in await kubectl("exec a -c z -- true", code=1)


@pytest.mark.soak
async def test_attach_and_run_reach_standard_input(kubectl: Kubectl, tmp_path: Path) -> None:
    loop = ["sh", "-c", "while read line; do echo got $line; done; echo end"]
    await run_pod(kubectl, tmp_path, "a", loop, stdin=True, stdinOnce=True)
    assert "got one\ngot two\nend\n" in await kubectl("attach -i a", typed="one\ntwo\n")
    text = await kubectl("run b -i --rm --restart=Never --image=busybox -- cat", typed="through the pod\n")
    assert "through the pod\n" in text
    run = "run c -it --rm --restart=Never --image=busybox"
    shown = await kubectl.in_terminal(run, wait_for="try pressing enter", typed="echo $((6*7)); exit\n")
    assert "42" in shown


@pytest.mark.soak
async def test_port_forward_carries_requests(kubectl: Kubectl, tmp_path: Path) -> None:
    await run_pod(kubectl, tmp_path, "a", ["python3", "-c", SERVE])

    async def port() -> str:
        found = re.search(r"port (\d+)", await kubectl("logs a"))
        return found[1] if found else ""

    forward = await kubectl.start(f"port-forward pod/a :{await eventually(port)}")
    try:
        assert forward.stdout is not None
        found = re.search(rb"127.0.0.1:(\d+)", await forward.stdout.readline())
        assert found is not None
        url = f"http://127.0.0.1:{found[1].decode()}/"
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            tasks = [group.create_task(_status(session, url)) for _ in range(20)]
        assert [task.result() for task in tasks] == [200] * 20
    finally:
        forward.kill()
        await forward.wait()


async def _status(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url) as response:
        assert "Directory listing" in await response.text()
        return response.status


@pytest.mark.soak
async def test_files_are_copied_both_ways(kubectl: Kubectl, tmp_path: Path) -> None:
    await run_pod(kubectl, tmp_path, "a", ["sleep", "600"])
    source, back = tmp_path / "source", tmp_path / "back"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "big").write_bytes(bytes(range(256)) * 20_000)
    (source / "small").write_text("text")
    await kubectl(f"cp {source} a:copied")
    assert await kubectl("exec a -- cat copied/small") == "text"
    await kubectl(f"cp a:copied {back}")
    assert (back / "small").read_text() == "text"
    assert (back / "sub" / "big").read_bytes() == (source / "sub" / "big").read_bytes()


@pytest.mark.soak
async def test_commands_of_the_guide_work(kubectl: Kubectl, tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guide" / "dev-nodes.md").read_text(encoding="utf-8")
    script = guide.partition("## Connections to pods")[2].split("```")[1]
    await run_pod(kubectl, tmp_path, "web", ["sleep", "600"])
    text = await kubectl.in_shell(script, tmp_path)
    assert "HOSTNAME=web" in text
    assert (tmp_path / "greeting").read_text() == "hello\n"
    assert await kubectl("exec web -- cat again") == "hello\n"


@pytest.mark.soak
async def test_what_is_not_there_says_so(kubectl: Kubectl, tmp_path: Path) -> None:
    await run_pod(kubectl, tmp_path, "a", ["sleep", "600"])
    text = await kubectl("debug a --image=busybox --profile=general", code=1)
    assert "ephemeral containers are not supported by this cluster" in text
    assert "kubectl exec -it -n default a -- sh" in text
    text = await kubectl("exec a -- true", code=1, KUBECTL_REMOTE_COMMAND_WEBSOCKETS="false")
    assert "use kubectl 1.31 or newer" in text
    text = await kubectl("port-forward pod/a :80", code=1, KUBECTL_PORT_FORWARD_WEBSOCKETS="false")
    assert "use kubectl 1.31 or newer" in text


@pytest.mark.soak
async def test_simulated_containers_name_the_runtime_that_is_needed(
    serve: Serve, environment: Mapping[str, str], tmp_path: Path
) -> None:
    async with serve() as path:
        kubectl = Kubectl(path, environment)
        await run_pod(kubectl, tmp_path, "a", ["sleep", "600"])
        for command in ("exec a -- true", "attach a", "port-forward pod/a :80"):
            assert "kcr dev --runtime process" in await kubectl(command, code=1)
