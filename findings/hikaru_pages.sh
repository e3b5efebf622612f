#!/usr/bin/env bash
# hikaru: a list in pages ends after the first page, for the token of the next one is always None.
#
# Seen with hikaru-core 1.1.2, hikaru-model-28 1.1.0, kubernetes 37.0.2, CPython 3.11 (2026-11-30):
# `SecretList.listNamespacedSecret(namespace, limit=2)` sends `limit=2` and gets a list whose metadata has a `continue`. The object that
# hikaru makes of it has a field `continue_`, which is None, beside the resourceVersion and the remainingItemCount of the same answer.
# So the usual loop, "until there is no token", sees two of five objects and no error. The official client below it has the token, in
# `_continue`.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check hikaru-core==1.1.2 hikaru-model-28==1.1.0 kubernetes==37.0.2
exec "$folder/venv/bin/python" - <<'PYTHON'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from urllib.parse import parse_qs, urlsplit

import kubernetes
from hikaru.model.rel_1_28.v1 import SecretList

NAMES = ["a", "b", "c", "d", "e"]


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)
        start, limit = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        page, left = NAMES[start : start + limit], len(NAMES) - start - limit
        metadata = {"resourceVersion": "7"}
        if left > 0:
            metadata |= {"continue": str(start + limit), "remainingItemCount": left}
        items = [{"metadata": {"name": name, "namespace": "default"}} for name in page]
        body = json.dumps({"kind": "SecretList", "apiVersion": "v1", "metadata": metadata, "items": items}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
api = kubernetes.client.ApiClient(kubernetes.client.Configuration(host=f"http://127.0.0.1:{server.server_port}"))
page = SecretList.listNamespacedSecret("default", limit=2, client=api).obj
plain = kubernetes.client.CoreV1Api(api).list_namespaced_secret("default", limit=2)
server.shutdown()
print(f"hikaru-core {version('hikaru-core')}, kubernetes {version('kubernetes')}, Python {sys.version.split()[0]}")
print(f"hikaru: {len(page.items)} objects, {page.metadata.remainingItemCount} remain, the next page is {page.metadata.continue_!r}")
print(f"kubernetes: {len(plain.items)} objects, {plain.metadata.remaining_item_count} remain, {plain.metadata._continue!r}")
told = (len(page.items), page.metadata.remainingItemCount, page.metadata.continue_, plain.metadata._continue)
sys.exit(told != (2, 3, None, "2"))
PYTHON
