#!/usr/bin/env bash
# cloudcoil: a read that the API server refuses with anything but 404 is a validation error of the object's fields.
#
# Seen with cloudcoil 0.6.0, cloudcoil-models-kubernetes 1.32.1.3, CPython 3.11 (2026-11-30):
# `ConfigMap.get(name)` raises the library's `ResourceNotFound` for a 404. For 401, 403, 429 and 503 the answer's body, a Status, is read as
# a ConfigMap: pydantic's ValidationError says that `kind` must be 'ConfigMap', and neither the code nor the message of the server is
# an attribute of it. So `except APIError` catches no refusal of a read, and a retry on 429 has nothing to go by; creates of the same
# client raise `APIError`.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check cloudcoil==0.6.0 cloudcoil-models-kubernetes==1.32.1.3
exec "$folder/venv/bin/python" - "$folder" <<'PYTHON'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

from cloudcoil.client import Config
from cloudcoil.models.kubernetes.core.v1 import ConfigMap

REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 429: "TooManyRequests", 503: "ServiceUnavailable"}
answer = [0]


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        code = 200
        body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [
            {"name": "configmaps", "singularName": "configmap", "namespaced": True, "kind": "ConfigMap", "verbs": ["get"]}]}
        if "/namespaces/" in self.path:
            code = answer[0]
            body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
                    "reason": REASONS[code], "message": "the server says why"}
        elif self.path.startswith("/version"):
            body = {"major": "1", "minor": "29", "gitVersion": "v1.29.0"}
        elif self.path.startswith("/apis"):
            body = {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
        elif self.path.rstrip("/") == "/api":
            body = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        sent = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_GET = do_POST = reply

    def log_message(self, *_):
        pass


def kinds(error):
    return [f"{one.__module__.partition('.')[0]}.{one.__name__}" for one in type(error).__mro__]


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
kubeconfig = Path(sys.argv[1]) / "config"
kubeconfig.write_text(json.dumps({
    "apiVersion": "v1", "kind": "Config", "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
    "users": [{"name": "a", "user": {"token": "t"}}],
}))
made = ConfigMap.model_validate({"metadata": {"name": "a", "namespace": "default"}})
print(f"cloudcoil {version('cloudcoil')}, Python {sys.version.split()[0]}")
seen = {}
with Config(kubeconfig=kubeconfig):
    for verb, call in (("get", lambda: ConfigMap.get("a", "default")), ("create", made.create)):
        for answer[0] in REASONS:
            try:
                call()
            except Exception as error:
                seen[verb, answer[0]] = kinds(error)[0]
            print(f"{verb}, {answer[0]}: raises {seen.get((verb, answer[0]))}")
server.shutdown()
refused = {found for (verb, code), found in seen.items() if verb == "get" and code != 404}
sys.exit(not (refused == {"pydantic_core.ValidationError"} and seen["get", 404].startswith("cloudcoil.")
              and seen["create", 403].startswith("cloudcoil.")))
PYTHON
