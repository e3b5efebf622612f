#!/usr/bin/env bash
# kr8s: a watch goes on after an error 410, and ends without a word after a clean end.
#
# Seen with kr8s 0.20.15, CPython 3.11 (2026-11-30):
# kube-apiserver ends every watch cleanly after some 30 to 60 minutes. `async for kind, obj in api.watch("secrets")` then ends as well,
# without an error: a program that loops over it has left its loop, and what changes afterwards is not seen. After an ERROR event with
# 410, the other way in which a watch ends, the same loop asks again from the last version and goes on.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check kr8s==0.20.15
exec "$folder/venv/bin/python" - "$folder" <<'PYTHON'
import asyncio
import json
import sys
import threading
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import kr8s.asyncio

EXPIRED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
           "message": "too old resource version"}
SECRETS = {"name": "secrets", "singularName": "secret", "namespaced": True, "kind": "Secret", "verbs": ["list", "watch"]}
ends_with_410 = [False]
watches = []


def secret(name, number):
    metadata = {"name": name, "namespace": "default", "resourceVersion": str(number)}
    return {"type": "ADDED", "object": {"kind": "Secret", "apiVersion": "v1", "metadata": metadata}}


class Server(BaseHTTPRequestHandler):
    """Each watch has one event, and then ends."""

    def do_GET(self):
        path = self.path.partition("?")[0].rstrip("/")
        if path.endswith("/secrets"):
            watches.append(self.path)
            lines = [secret(f"s{len(watches)}", len(watches))]
            if ends_with_410[0]:
                lines.append({"type": "ERROR", "object": EXPIRED})
        elif path == "/api":
            lines = [{"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}]
        elif path == "/apis":
            lines = [{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}]
        elif path == "/version":
            lines = [{"major": "1", "minor": "33", "gitVersion": "v1.33.0"}]
        else:
            lines = [{"kind": "APIResourceList", "groupVersion": "v1", "resources": [SECRETS]}]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        for line in lines:
            self.wfile.write(json.dumps(line).encode() + b"\n")

    def log_message(self, *_):
        pass


async def follow(kubeconfig):
    """Return the names that a watch has seen, three at most, and whether it has ended by itself."""
    api = await kr8s.asyncio.api(kubeconfig=str(kubeconfig))
    seen = []
    async with aclosing(api.watch("secrets", namespace="default")) as events:
        async for _, one in events:
            seen.append(one.metadata.name)
            if len(seen) == 3:
                return seen, False
    return seen, True


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
kubeconfig = Path(sys.argv[1]) / "config"
kubeconfig.write_text(json.dumps({
    "apiVersion": "v1", "kind": "Config", "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
    "users": [{"name": "a", "user": {"token": "t"}}],
}))
print(f"kr8s {version('kr8s')}, Python {sys.version.split()[0]}")
found = {}
for ends_with_410[0] in (False, True):
    watches.clear()
    found[ends_with_410[0]] = asyncio.run(asyncio.wait_for(follow(kubeconfig), 30))
    how = "an error 410" if ends_with_410[0] else "a clean end"
    print(f"after {how}: {len(watches)} watches, events of {found[ends_with_410[0]][0]}, ended: {found[ends_with_410[0]][1]}")
server.shutdown()
sys.exit(not (found[False] == (["s1"], True) and found[True] == (["s1", "s2", "s3"], False)))
PYTHON
