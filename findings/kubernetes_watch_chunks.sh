#!/usr/bin/env bash
# The official Kubernetes client: how long a watch takes depends on how the server cuts the same bytes into chunks.
#
# Seen with kubernetes 37.0.2, urllib3 2.8.0, CPython 3.11 (2026-11-30):
# `watch.Watch().stream(…)` of the synchronous client keeps what has arrived in a buffer, and copies the rest of it for each line that
# it takes. kube-apiserver flushes each event, so the rest is short. Where events arrive together, such as behind a proxy that
# collects them, the time grows with the square of a chunk: 4,000 events of 4 KB take 0.7 s of CPU in a chunk each, and 3 s in a
# single one. The watch of `kubernetes.aio`, in the same package, is faster then, as one would guess of both.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes==37.0.2 urllib3==2.8.0
exec "$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

import kubernetes
import kubernetes.aio.client
import kubernetes.aio.watch

COUNT = 4_000
LINES = [
    json.dumps({"type": "ADDED", "object": {
        "kind": "ConfigMap", "apiVersion": "v1", "data": {"text": "x" * 4000},
        "metadata": {"name": f"a-{number}", "namespace": "default", "resourceVersion": str(number + 1)},
    }}).encode() + b"\n"
    for number in range(COUNT)
]
at_once = [1]


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for start in range(0, COUNT, at_once[0]):
            chunk = b"".join(LINES[start : start + at_once[0]])
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_):
        pass


class Quiet(ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client that has seen enough is no error."""


def with_sync(host):
    api = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(kubernetes.client.Configuration(host=host)))
    for seen, _ in enumerate(kubernetes.watch.Watch().stream(api.list_namespaced_config_map, "default"), 1):
        if seen == COUNT:
            return


def with_aio(host):
    async def follow():
        configuration = kubernetes.aio.client.Configuration(host=host)
        async with kubernetes.aio.client.ApiClient(configuration) as client:
            listing, seen = kubernetes.aio.client.CoreV1Api(client).list_namespaced_config_map, 0
            async for _ in kubernetes.aio.watch.Watch().stream(listing, "default"):
                seen += 1
                if seen == COUNT:
                    return

    asyncio.run(follow())


server = Quiet(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"kubernetes {version('kubernetes')}, urllib3 {version('urllib3')}, Python {sys.version.split()[0]}")
ratios = {}
for name, follow in (("kubernetes", with_sync), ("kubernetes.aio", with_aio)):
    seconds = []
    for at_once[0] in (1, COUNT):
        start = time.thread_time()
        follow(f"http://127.0.0.1:{server.server_port}")
        seconds.append(time.thread_time() - start)
    ratios[name] = seconds[1] / seconds[0]
    print(f"{name}: {seconds[0]:.2f} s of CPU for {COUNT} chunks, {seconds[1]:.2f} s for one")
sys.stdout.flush()
server.shutdown()
sys.exit(not (ratios["kubernetes"] > 1.5 > ratios["kubernetes.aio"]))
PYTHON
