#!/usr/bin/env bash
# The official Kubernetes client: a watch of a log begins again when the log ends, in one of the two clients of the package.
#
# Seen with kubernetes 37.0.2, CPython 3.11 (2026-12-01):
# `watch.Watch().stream(api.read_namespaced_pod_log, …)` yields the lines of a log. That of the synchronous client ends with the log of a
# pod that has finished. That of `kubernetes.aio`, in the same package and with the same names, requests the log again, and yields
# the same lines again, as long as it is iterated: it looks for the return type "str" by name, and is given the class. Those who
# print the lines of a Job see each of them many times, and the loop goes on.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes==37.0.2
exec "$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

import kubernetes
import kubernetes.aio.client
import kubernetes.aio.watch

LINES = ["one", "two"]
MOST = 6
requests = []


class Server(BaseHTTPRequestHandler):
    """Has the log of one pod that has finished."""

    def do_GET(self):
        requests.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write("".join(f"{line}\n" for line in LINES).encode())

    def log_message(self, *_):
        pass


def lines_of_sync(host):
    api = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(kubernetes.client.Configuration(host=host)))
    lines = []
    for line in kubernetes.watch.Watch().stream(api.read_namespaced_pod_log, "pi", "default"):
        lines.append(line.rstrip("\n"))
        if len(lines) == MOST:
            break
    return lines


async def lines_of_aio(host):
    client = kubernetes.aio.client
    lines = []
    async with client.ApiClient(client.Configuration(host=host)) as connection, kubernetes.aio.watch.Watch() as watch:
        async for line in watch.stream(client.CoreV1Api(connection).read_namespaced_pod_log, "pi", "default"):
            lines.append(line.rstrip("\n"))
            if len(lines) == MOST:
                break
    return lines


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
host = f"http://127.0.0.1:{server.server_port}"
sync, asked = lines_of_sync(host), len(requests)
aio = asyncio.run(lines_of_aio(host))
server.shutdown()
print(f"kubernetes {version('kubernetes')}, Python {sys.version.split()[0]}")
print(f"kubernetes: {asked} request, lines {sync}")
print(f"kubernetes.aio: {len(requests) - asked} requests, the first {MOST} lines {aio}")
sys.exit(not (sync == LINES and asked == 1 and aio == LINES * 3))
PYTHON
