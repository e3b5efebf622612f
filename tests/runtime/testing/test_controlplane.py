"""The process handling of the real control plane, with scripts that stand in for its programs."""

import socket
import sys
from pathlib import Path

import pytest

from kcr.client import Client, HttpTransport
from kcr.errors import UnauthorizedError
from kcr_devcluster.testing.controlplane import Assets, HealthEndpoint, control_plane, free_port, running

pytestmark = pytest.mark.timeout(60)

# Both programs: serves the health paths on the port its flags name, over TLS when they name a certificate, and to
# those who hold the token when they name tokens.
STAND_IN = """
import http.server, pathlib, ssl, sys, urllib.request
flags = dict(argument[2:].split("=", 1) for argument in sys.argv[1:])
etcd = flags.get("etcd-servers")
if etcd:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(etcd + "/health")
token = pathlib.Path(flags["token-auth-file"]).read_text().split(",")[0] if etcd else ""

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        allowed = not token or self.headers["Authorization"] == "Bearer " + token
        body = b'{"gitVersion":"v1.36.2"}'
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

port = int(flags["secure-port"] if etcd else flags["listen-client-urls"].rpartition(":")[2])
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
if etcd:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(flags["tls-cert-file"], flags["tls-private-key-file"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def script(path: Path, code: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(0o700)
    return path


@pytest.mark.asyncio
async def test_admin_reaches_a_control_plane_that_came_up(tmp_path: Path) -> None:  # TK-11
    assets = Assets(script(tmp_path / "etcd", STAND_IN), script(tmp_path / "kube-apiserver", STAND_IN))
    folder = tmp_path / "state"
    folder.mkdir()
    with control_plane(assets, folder) as started:
        async with HttpTransport(started.config) as transport:
            assert await Client(transport).server_version() == "v1.36.2"
        stranger = type(started.config)(server=started.config.server, ca=started.config.ca)
        async with HttpTransport(stranger) as transport:
            with pytest.raises(UnauthorizedError):
                await Client(transport).server_version()
    with pytest.raises(OSError, match="refused"):
        _knock(started.config.server)


def test_program_that_ends_early_is_told_with_its_last_words(tmp_path: Path) -> None:  # TK-11
    code = "import sys; print('bind: address already in use'); sys.exit(3)"
    broken = Assets(script(tmp_path / "etcd", code), script(tmp_path / "kube-apiserver", code))
    last_words = "etcd ended with code 3: bind: address already in use"
    with pytest.raises(RuntimeError, match=last_words), control_plane(broken, tmp_path):
        pass


def test_first_program_is_stopped_when_the_second_does_not_come_up(tmp_path: Path) -> None:  # TK-11
    half = Assets(script(tmp_path / "etcd", STAND_IN), script(tmp_path / "kube-apiserver", "raise SystemExit('no')"))
    with pytest.raises(RuntimeError, match="kube-apiserver ended with code 1: no"), control_plane(half, tmp_path):
        pass
    assert "Traceback" not in (tmp_path / "etcd.log").read_text()


def test_program_that_never_is_well_is_given_up(tmp_path: Path) -> None:  # TK-11
    mute = script(tmp_path / "mute", "import time; time.sleep(60)")
    health = HealthEndpoint(f"http://127.0.0.1:{free_port()}/health")
    with (
        pytest.raises(RuntimeError, match=r"mute is not up after 0\.5 s: it said nothing"),
        running([str(mute)], tmp_path / "log", health, start_seconds=0.5),
    ):
        pass


def test_program_that_will_not_end_is_killed(tmp_path: Path) -> None:  # TK-11
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STAND_IN
    port = free_port()
    command = [str(script(tmp_path / "etcd", code)), f"--listen-client-urls=http://127.0.0.1:{port}"]
    with running(command, tmp_path / "log", HealthEndpoint(f"http://127.0.0.1:{port}/health"), stop_seconds=0.2):
        _knock(f"http://127.0.0.1:{port}")
    with pytest.raises(OSError, match="refused"):
        _knock(f"http://127.0.0.1:{port}")


def _knock(url: str) -> None:
    socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))).close()
