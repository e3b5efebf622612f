#!/usr/bin/env bash
# The official Kubernetes client: the leader election of kubernetes.aio takes over a lock that is there, and cannot create one.
#
# Seen with kubernetes 37.0.2, pydantic 2.14.4, CPython 3.11 (2026-12-01):
# `leaderelection.LeaderElection(…).run()` with a `LeaseLock` or a `ConfigMapLock` that does not exist yet raises pydantic's
# ValidationError, after the read and before a create is sent: the lock asks its own API for `pretty=True`, where that takes the text
# "true". The exception is none of the library's, so nothing tries again. Where the lock exists, the candidate becomes the leader,
# which is why a second start in the same cluster works.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes==37.0.2 pydantic==2.14.4
exec "$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from kubernetes.aio import client
from kubernetes.aio.leaderelection import electionconfig, leaderelection
from kubernetes.aio.leaderelection.resourcelock.configmaplock import ConfigMapLock
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

objects = {}
methods = []


class Server(BaseHTTPRequestHandler):
    """Stores objects by their path, with the next resourceVersion."""

    protocol_version = "HTTP/1.1"

    def answer(self, code, body):
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        methods.append("GET")
        found = objects.get(self.path)
        self.answer(*((404, {"kind": "Status", "code": 404, "reason": "NotFound"}) if found is None else (200, found)))

    def do_POST(self):
        methods.append(self.command)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body["metadata"]["resourceVersion"] = str(len(methods))
        path = self.path.partition("?")[0]
        objects[path if self.command == "PUT" else f"{path}/{body['metadata']['name']}"] = body
        self.answer(200, body)

    do_PUT = do_POST

    def log_message(self, *_):
        pass


async def run(host, kind, name):
    """Return what a candidate's election comes to."""
    begun = asyncio.Event()

    async def lead():
        begun.set()

    async def follow():
        pass

    async with client.ApiClient(client.Configuration(host=host)) as connection:
        config = electionconfig.Config(
            kind(name, "default", "me", connection), lease_duration=10, renew_deadline=5, retry_period=1,
            onstarted_leading=lead, onstopped_leading=follow,
        )
        election = asyncio.create_task(leaderelection.LeaderElection(config).run())
        started = asyncio.create_task(begun.wait())
        await asyncio.wait({election, started}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        if election.done():
            started.cancel()
            return type(election.exception()).__name__
        election.cancel()
        return "leads" if begun.is_set() else "waits"


THERE = {
    LeaseLock: ("/apis/coordination.k8s.io/v1/namespaces/default/leases/there",
                {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}}),
    ConfigMapLock: ("/api/v1/namespaces/default/configmaps/there", {"apiVersion": "v1", "kind": "ConfigMap"}),
}
server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
host = f"http://127.0.0.1:{server.server_port}"
print(f"kubernetes {version('kubernetes')}, pydantic {version('pydantic')}, Python {sys.version.split()[0]}")
holds = True
for kind, (path, body) in THERE.items():
    objects[path] = {**body, "metadata": {"name": "there", "namespace": "default", "resourceVersion": "1"}}
    methods.clear()
    absent, sent = asyncio.run(run(host, kind, "absent")), list(methods)
    there = asyncio.run(run(host, kind, "there"))
    print(f"{kind.__name__}: absent: {absent}, sent {sent}; there: {there}")
    holds = holds and (absent, sent, there) == ("ValidationError", ["GET"], "leads")
server.shutdown()
sys.exit(not holds)
PYTHON
