"""Reviews of webhooks: how many per CPU second, and how late while the program's loop is blocked; kcr and kopf.

Both serve the same validator over HTTPS with the same certificate, each in a process of its own, and a third process
calls it on connections that it keeps, as an API server does. Then the loop is blocked again and again for two seconds.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from kcr.serving.ports.certificate import self_signed
from kcr_devcluster.cluster import EmbeddedCluster

_SECONDS = 300
# Calls on four connections, and prints the CPU seconds of the server for all reviews, and each one's milliseconds while
# the server's loop is blocked: for so many seconds, one review every 10 ms on each connection.
_CALLER = """
import http.client, json, os, ssl, sys, threading, time
import psutil
port, path, pid, count, block = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b", "uid": "u"},
       "data": {f"key-{number}": "value" * 8 for number in range(40)}}
body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
    "uid": "1", "kind": kind, "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "name": "a",
    "namespace": "b", "operation": "CREATE", "userInfo": {"username": "me"}, "object": obj, "oldObject": None,
    "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}, "dryRun": False}}).encode()
context = ssl._create_unverified_context()

def call(connection):
    connection.request("POST", path + "?timeout=10s", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200 and json.loads(text)["response"]["allowed"], text

def connect():
    return http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)

def until_served():
    for _ in range(600):
        try:
            return call(connect())
        except (OSError, AssertionError, http.client.HTTPException):
            time.sleep(0.1)

def everywhere(work):
    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

def many():
    connection = connect()
    for _ in range(count // 4):
        call(connection)

seconds = []
def paced():
    connection = connect()
    call(connection)
    end = time.perf_counter() + 8
    while time.perf_counter() < end:
        began = time.perf_counter()
        call(connection)
        took = time.perf_counter() - began
        seconds.append(took)
        time.sleep(max(0.0, 0.01 - took))

until_served()
server = psutil.Process(pid)
before = server.cpu_times()
everywhere(many)
after = server.cpu_times()
open(block, "w").close()
everywhere(paced)
cpu = after.user + after.system - before.user - before.system
print(json.dumps({"cpu": cpu, "seconds": sorted(seconds)}))
"""


async def webhooks(size: int) -> dict[str, float]:
    """Return reviews per CPU second, and latencies in milliseconds with a loop that is blocked."""
    figures: dict[str, float] = {}
    latencies: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "both.pem").write_bytes(self_signed(datetime.now(UTC)))  # noqa: TID251  # valid for a client of today
        async with EmbeddedCluster(runtime=None, gc=False) as cluster:
            (folder / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
            kopf = [sys.executable, "-m", "kopf", "run", "-A", "--standalone", "--quiet", "bench/kopf_webhook.py"]
            for who, command, path in (
                ("kcr", [sys.executable, "-m", "bench.kcr_webhook"], "/validate--v1-configmap"),
                ("kopf", kopf, "/review"),
            ):
                cpu, seconds = await _measure(folder, command, path, size)
                figures[f"{who}, reviews per CPU second"] = size // 4 * 4 / cpu
                latencies[f"{who}, blocked, p99 in ms"] = seconds[int(0.99 * len(seconds))] * 1e3
                latencies[f"{who}, blocked, the longest in ms"] = seconds[-1] * 1e3
    return figures | latencies


async def _measure(folder: Path, command: list[str], path: str, size: int) -> tuple[float, list[float]]:
    port, block = 20_000 + os.getpid() % 20_000 + len(path), folder / f"block-{len(path)}"
    environment = {
        **os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "BENCH_PORT": str(port), "BENCH_BLOCK": str(block),
        "BENCH_CERTIFICATE": str(folder / "both.pem"),
    }  # fmt: skip
    serving = await asyncio.create_subprocess_exec(*command, env=environment, stderr=subprocess.DEVNULL)
    try:
        calling = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _CALLER, str(port), path, str(serving.pid), str(size), str(block),
            stdout=subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(_SECONDS):
            out, _ = await calling.communicate()
    finally:
        serving.kill()
        await serving.wait()
    found = json.loads(out)
    return found["cpu"], found["seconds"]
