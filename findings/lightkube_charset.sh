#!/usr/bin/env bash
# lightkube: whether a refusal is an ApiError depends on a parameter of the answer's Content-Type.
#
# Seen with lightkube 1.0.1, lightkube-models 1.37.0.8, CPython 3.11 (2026-11-30):
# A 404 with `Content-Type: application/json`, as kube-apiserver writes it, raises `lightkube.ApiError`, whose `status` has code, reason and
# message. The same 404 with `application/json; charset=utf-8`, as many HTTP servers, gateways and aggregated API servers write it,
# raises the HTTP library's HTTPStatusError: it is no ApiError, has no `status`, and its text lacks the server's message. So
# `except ApiError as error: if error.status.code == 404` lets it pass behind such a proxy.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check lightkube==1.0.1 lightkube-models==1.37.0.8
exec "$folder/venv/bin/python" - <<'PYTHON'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from lightkube import ApiError, Client, KubeConfig
from lightkube.resources.core_v1 import ConfigMap

TYPES = ["application/json", "application/json; charset=utf-8"]
MESSAGE = 'configmaps "a" not found'
content_type = [""]


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = json.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
                           "reason": "NotFound", "message": MESSAGE}).encode()
        self.send_response(404)
        self.send_header("Content-Type", content_type[0])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
config = KubeConfig.from_dict({
    "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
    "users": [{"name": "a", "user": {"token": "t"}}],
})
client = Client(config, namespace="default")
print(f"lightkube {version('lightkube')}, Python {sys.version.split()[0]}")
seen = []
for content_type[0] in TYPES:
    try:
        client.get(ConfigMap, "a")
    except Exception as error:
        seen.append((type(error).__name__, isinstance(error, ApiError), MESSAGE in str(error)))
        print(f"{content_type[0]}: raises {seen[-1][0]}, an ApiError: {seen[-1][1]}, with the server's message: {seen[-1][2]}")
server.shutdown()
sys.exit(seen != [("ApiError", True, True), ("HTTPStatusError", False, False)])
PYTHON
