"""The ports of `kcr run`, as a kubelet and Prometheus see them."""

import json
import re

import aiohttp
import pytest

from kcr.testing import eventually
from tests.e2e.processes import ROOT, Running, Serve, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60), pytest.mark.asyncio]


async def get(run: Running, what: str, path: str) -> tuple[int, str]:
    """Read a page from the port that the log names."""

    def address() -> str:
        assert run.process.returncode is None, run.err
        for line in run.err.splitlines():
            # kcr dev also shows Jobs.
            said = json.loads(line) if line.startswith("{") else {}
            if said.get("event") == "listening" and said["what"] == what:
                return str(said["address"])
        return ""

    url = f"http://{await eventually(address)}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_ports_are_served_while_controllers_run(kcr: Start, serve: Serve) -> None:  # CM-25, CM-50, CM-52
    async with serve() as kubeconfig, kcr(
        "run", "--kubeconfig", str(kubeconfig), "--metrics-bind-address", "127.0.0.1:0", "--kube-api-qps", "100",
        KCR_HEALTH_PROBE_BIND_ADDRESS="127.0.0.1:0", KCR_LOG_FORMAT="json",
    ) as run:  # fmt: skip

        async def ready() -> bool:
            return await get(run, "probes", "/readyz") == (200, "ok")

        await eventually(ready)
        assert await get(run, "probes", "/healthz") == (200, "ok")
        _, text = await get(run, "metrics", "/metrics")
        assert re.search(r'rest_client_requests_total\{code="200",host="127\.0\.0\.1:\d+",method="GET"\} \d', text)
        assert re.search(
            r'rest_client_rate_limiter_duration_seconds_count\{host="127\.0\.0\.1:\d+",verb="GET"\} \d', text
        )
        assert 'workqueue_depth{controller="job",name="job",priority="0"} 0.0' in text
        assert await run.stop() == 0, run.err
        assert "Traceback" not in run.err


@pytest.mark.soak
@pytest.mark.parametrize("page", [[], ["--no-debug-page"]], ids=["page", "no-page"])
async def test_development_cluster_serves_metrics_when_asked(kcr: Start, page: list[str]) -> None:
    logs = {"KCR_LOG_FORMAT": "json", "KCR_LOG_LEVEL": "info"}
    options = ("--runtime", "simulated", "--metrics-bind-address", "127.0.0.1:0")
    async with kcr("dev", *options, *page, "-f", str(ROOT / "examples" / "pi.yaml"), **logs) as dev:

        async def has_reconciled() -> bool:
            status, text = await get(dev, "metrics", "/metrics")
            found = re.search(r'reconcile_total\{controller="job",result="success"\} (\d)', text)
            return status == 200 and found is not None and int(found[1]) > 0

        await eventually(has_reconciled)


@pytest.mark.soak
async def test_probe_port_tells_this_machine_what_runs(kcr: Start, serve: Serve) -> None:
    async with serve() as kubeconfig, kcr(
        "run", "--kubeconfig", str(kubeconfig), "--health-probe-bind-address", "127.0.0.1:0", "--workers", "3",
        KCR_LOG_FORMAT="json",
    ) as run:  # fmt: skip
        await run.ready()
        status, text = await get(run, "probes", "/debug/kcr/state")
        state = json.loads(text)
        assert (status, state["process"]["command"], state["process"]["notReady"]) == (200, "kcr run", [])
        assert state["process"]["server"].startswith("https://127.0.0.1:")
        job = next(one for one in state["controllers"] if one["name"] == "job")
        assert (job["name"], job["kinds"], job["workers"]) == ("job", ["jobs.batch", "pods"], 3)
        status, text = await get(run, "probes", "/debug/kcr/options")
        options = json.loads(text)
        assert (options["workers"], options["kubeconfig"]) == (3, str(kubeconfig))
        # The paths of the guide; a profile takes as long as it says.
        guide = (ROOT / "docs" / "guide" / "observe.md").read_text(encoding="utf-8")
        for path in re.findall(r"localhost:8081(/debug/[^'>\s]+)", guide):
            status, text = await get(run, "probes", path.replace("seconds=10", "seconds=1"))
            assert (status, bool(text)) == (200, True)
        assert await run.stop() == 0, run.err


@pytest.mark.soak
async def test_taken_port_is_one_line_and_one(kcr: Start, serve: Serve) -> None:
    async with serve() as kubeconfig:
        server = re.search(r"https://(\S+)", kubeconfig.read_text(encoding="utf-8"))
        assert server
        async with kcr(
            "run", "--kubeconfig", str(kubeconfig), "--metrics-bind-address", server[1], "--log-level", "error"
        ) as run:
            assert await run.end() == 1
            assert run.err.count("\n") == 1
            assert f"metrics: cannot listen on {server[1]}: Address already in use: name another" in run.err
