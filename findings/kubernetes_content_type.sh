#!/usr/bin/env bash
# The official Kubernetes client: of two clients in one package, one names the type of the JSON that it sends, the other does not.
#
# Seen with kubernetes 37.0.2, CPython 3.11 (2026-11-30):
# `create_…` and `replace_…` of the synchronous API send a JSON body without any Content-Type; those of `kubernetes.aio`, in the same
# package and with the same names, send `application/json`. Patches of both have one. kube-apiserver reads a body without a type as
# JSON, so nobody notices; what stands between, or answers in a test's place, may not: a proxy that fills in
# `application/octet-stream` gets a 415, and a stub that reads JSON by its type sees no body.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes==37.0.2
exec "$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

import kubernetes
import kubernetes.aio.client

NAME = {"name": "a", "namespace": "default"}
BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": NAME, "data": {"a": "1"}}
CALLS = {
    "create": ("create_namespaced_config_map", ("default", BODY)),
    "replace": ("replace_namespaced_config_map", ("a", "default", BODY)),
    "patch": ("patch_namespaced_config_map", ("a", "default", {"data": {"a": "2"}})),
}
types = []


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        types.append(self.headers["Content-Type"])
        body = json.dumps(BODY).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = answer

    def log_message(self, *_):
        pass


def types_of_sync(host):
    api = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(kubernetes.client.Configuration(host=host)))
    for name, arguments in CALLS.values():
        getattr(api, name)(*arguments)


async def types_of_aio(host):
    client = kubernetes.aio.client
    async with client.ApiClient(client.Configuration(host=host)) as connection:
        api = client.CoreV1Api(connection)
        for name, arguments in CALLS.values():
            await getattr(api, name)(*arguments)


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
host = f"http://127.0.0.1:{server.server_port}"
types_of_sync(host)
asyncio.run(types_of_aio(host))
server.shutdown()
seen = {"kubernetes": types[:3], "kubernetes.aio": types[3:]}
print(f"kubernetes {version('kubernetes')}, Python {sys.version.split()[0]}")
for client, found in seen.items():
    for call, kind in zip(CALLS, found):
        print(f"{client}, {call}: Content-Type {kind}")
sync, aio = seen.values()
sys.exit(not (sync[:2] == [None, None] and aio[:2] == ["application/json"] * 2 and None not in (sync[2], aio[2])))
PYTHON
