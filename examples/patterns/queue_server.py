"""A queue of work items over HTTP, for the two queue patterns: each GET hands out one item, 204 says there is none.

    python3 examples/patterns/queue_server.py 8088 apple banana cherry

It serves on 127.0.0.1; port 0 takes any free one. The first line it prints names the address. What it has handed
out it forgets: a real queue takes an item back when its worker dies.
"""

import sys
from collections import deque
from http.server import BaseHTTPRequestHandler, HTTPServer


def main(port: int, items: deque[str]) -> None:
    """Hand out the items, in order, until it is ended."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if items else 204)
            self.end_headers()
            if items:
                self.wfile.write(items.popleft().encode())

    with HTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), deque(sys.argv[2:]))
