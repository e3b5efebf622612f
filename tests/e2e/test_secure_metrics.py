"""`kcr run --metrics-secure` as a process, under the embedded server's roles, and a reader with curl's means."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
import trustme
import yaml

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Running, Serve, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

OPTIONS = ("run", "--metrics-secure", "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0")


def ports(run: Running) -> dict[str, int]:
    lines = (json.loads(line) for line in run.err.splitlines())
    return {line["what"]: int(line["address"].rpartition(":")[2]) for line in lines if line["event"] == "listening"}


async def get(url: str, token: str = "", authority: trustme.CA | None = None) -> tuple[int, str]:
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode()) if authority else False
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as session, session.get(url, ssl=context, headers=headers) as answer:
        return answer.status, await answer.text()


@NEEDS_KUBECTL
@pytest.mark.soak
async def test_roles_say_who_reads_the_metrics(
    kcr: Start, serve: Serve, environment: Mapping[str, str], tmp_path: Path
) -> None:
    async with serve(authorization="rbac") as path:
        kubectl = Kubectl(path, environment)
        async with kcr("rbac", "generate", "--metrics-secure") as generate:
            assert await generate.end() == 0
            (tmp_path / "roles.yaml").write_text(generate.out)
        await kubectl(f"apply -f {tmp_path / 'roles.yaml'}")
        for name in ("prometheus", "stranger"):
            await kubectl(f"create serviceaccount {name}")
        await kubectl(
            "create clusterrolebinding reader --clusterrole=kcr-metrics-reader --serviceaccount=default:prometheus"
        )
        tokens = {name: (await kubectl(f"create token {name}")).strip() for name in ("kcr", "prometheus", "stranger")}
        # The controller has the generated rights, and no others.
        config = json.loads(await kubectl("config view --raw --output=json"))
        config["users"][0]["user"] = {"token": tokens["kcr"]}
        (tmp_path / "operator").write_text(json.dumps(config))
        async with kcr(*OPTIONS, "--kubeconfig", str(tmp_path / "operator")) as run:
            await run.ready()
            at = ports(run)
            metrics = f"https://127.0.0.1:{at['metrics']}/metrics"
            status, text = await get(metrics, tokens["prometheus"])
            assert (status, "workqueue_depth" in text) == (200, True)
            denied = "Authorization denied for user system:serviceaccount:default:stranger\n"
            assert await get(metrics, tokens["stranger"]) == (403, denied)
            assert await get(metrics, "wrong") == (401, "Unauthorized\n")
            assert await get(metrics) == (401, "Unauthorized\n")
            assert await get(f"http://127.0.0.1:{at['probes']}/readyz") == (200, "ok")
            assert "cluster check failed" not in run.err
            assert await run.stop() == 0, run.err


async def test_renewed_certificate_is_served(kcr: Start, serve: Serve, tmp_path: Path) -> None:
    def issue() -> trustme.CA:
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        (tmp_path / "tls.crt").write_bytes(issued.cert_chain_pems[0].bytes())
        (tmp_path / "tls.key").write_bytes(issued.private_key_pem.bytes())
        return authority

    authority = issue()
    async with serve() as path:
        token = yaml.safe_load(path.read_text())["users"][0]["user"]["token"]
        async with kcr(*OPTIONS, "--kubeconfig", str(path), "--metrics-cert-path", str(tmp_path)) as run:
            await run.ready()
            metrics = f"https://127.0.0.1:{ports(run)['metrics']}/metrics"
            assert (await get(metrics, token, authority))[0] == 200
            assert (await get(metrics, token, issue()))[0] == 200


@pytest.mark.soak
@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--metrics-secure"], 2, "--metrics-secure: metrics are served nowhere: add --metrics-bind-address=:8443"),
        (["--metrics-cert-path=."], 2, "--metrics-cert-path: it has no effect without --metrics-secure: add that"),
        (
            [*OPTIONS[1:], "--metrics-cert-path=/nowhere"],
            1,
            "metrics: /nowhere/tls.crt: No such file or directory: ",
        ),
    ],
    ids=["no-address", "not-secure", "no-file"],
)
async def test_options_that_cannot_be_used_are_one_line(
    kcr: Start, serve: Serve, options: list[str], code: int, words: str
) -> None:
    async with (
        serve() as path,
        kcr("run", *options, KCR_KUBECONFIG=str(path)) as run,
    ):
        assert await asyncio.wait_for(run.end(), 30) == code
        (line,) = [line for line in run.err.splitlines() if words in line]
        assert line.startswith("kcr: ")
        assert "Traceback" not in run.err
