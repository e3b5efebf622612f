"""kopf and kcr at the same work: a handler for every pod event, from one server over HTTPS.

The pods are there when the peer starts; each event is one of their states. So many pods are created that what a
process costs before its first event hardly counts.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from bench.pods import pod
from kcr.api.core import Pod
from kcr_devcluster.cluster import EmbeddedCluster

PEER_SECONDS = 600


async def peers(size: int) -> dict[str, float]:
    """Return pod events per CPU second and resident megabytes, for kcr and for kopf."""
    figures: dict[str, float] = {}
    async with EmbeddedCluster(runtime=None, gc=False) as cluster:
        address = await cluster.serve()
        for number in range(size):
            await cluster.client.create_manifest(Pod, _creatable(number), "default")
        with tempfile.TemporaryDirectory() as folder:
            kubeconfig = Path(folder) / "kubeconfig"
            kubeconfig.write_text(address.kubeconfig)
            commands = {
                "kcr": [sys.executable, "-m", "bench.kcr_handler", str(kubeconfig), str(size)],
                "kopf": [
                    sys.executable, "-m", "kopf", "run", "-A", "--standalone", "--quiet", "bench/kopf_handler.py",
                ],
            }  # fmt: skip
            environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "BENCH_EVENTS": str(size)}
            for name, command in commands.items():
                seen = await _run(command, environment)
                figures[f"{name}, events per CPU second"] = size / seen["cpu"]
                figures[f"{name}, resident MB"] = seen["rss"] / 1e6
    return figures


def _creatable(number: int) -> dict[str, object]:
    manifest = pod(number, 1)
    del manifest["metadata"]["resourceVersion"]
    return manifest


async def _run(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(PEER_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if not out:
        raise RuntimeError(f"{' '.join(command)}: no figures: {err.decode()[-2000:]}")
    figures: dict[str, float] = json.loads(out.splitlines()[-1])
    return figures
