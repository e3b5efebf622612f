"""An admission webhook on the standard library alone: it denies objects named `bad`, and warns of the others."""

import json
import os
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Reviews(BaseHTTPRequestHandler):
    """Answers reviews."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # its name in the standard library
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review.pop("request")
        response = {"uid": request["uid"], "allowed": request["name"] != "bad", "warnings": ["seen by the pod"]}
        review["response"] = {**response, "status": {"message": "a bad name", "code": 403, "reason": "Forbidden"}}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


port, chain = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(chain)
server = ThreadingHTTPServer((os.environ["POD_IP"], int(port)), Reviews)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
