"""The certificate of a port, seen by a client."""

import builtins
import os
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from cryptography import x509
from structlog.testing import capture_logs

from kcr.api.bindaddress import BindAddress
from kcr.errors import ConfigError
from kcr.serving.ports import HTTPServer, ProbeRequest, ProbeResponse, SecureServing, ServerCertificate
from kcr.serving.ports.certificate import self_signed

LOCAL = BindAddress("127.0.0.1", 0)


async def page(asked: ProbeRequest) -> ProbeResponse:
    return ProbeResponse(200, b"numbers\n")


def write(folder: Path, authority: trustme.CA) -> SecureServing:
    issued = authority.issue_cert("127.0.0.1")
    (folder / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    (folder / "tls.key").write_bytes(issued.private_key_pem.bytes())
    return SecureServing(str(folder))


async def read(port: int, authority: trustme.CA | None) -> str:
    context: ssl.SSLContext | bool = False
    if authority is not None:
        context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    async with aiohttp.ClientSession() as session, session.get(f"https://127.0.0.1:{port}/", ssl=context) as answer:
        return await answer.text()


@asynccontextmanager
async def serving(certificate: ServerCertificate) -> AsyncIterator[int]:
    async with HTTPServer("metrics", LOCAL, page, certificate.context()) as server:
        yield server.port


@pytest.mark.asyncio
async def test_certificate_is_reloaded_when_its_files_change(tmp_path: Path) -> None:
    before, after = trustme.CA(), trustme.CA()
    async with serving(ServerCertificate(write(tmp_path, before))) as port:
        assert await read(port, before) == "numbers\n"
        write(tmp_path, after)
        with capture_logs() as logs:
            assert await read(port, after) == "numbers\n"
            assert await read(port, after) == "numbers\n"
        assert [line["event"] for line in logs] == ["certificate reloaded"]


@pytest.mark.asyncio
async def test_secret_that_is_mounted_anew_is_noticed(tmp_path: Path) -> None:
    # The kubelet replaces one link; times and sizes of the files may stay.
    before, after = trustme.CA(), trustme.CA()
    for name, authority in (("1", before), ("2", after)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, authority)
        for file in (tmp_path / name).iterdir():
            os.utime(file, (0, 0))
    (tmp_path / "data").symlink_to("1")
    async with serving(ServerCertificate(SecureServing(str(tmp_path / "data")))) as port:
        assert await read(port, before) == "numbers\n"
        (tmp_path / "new").symlink_to("2")
        (tmp_path / "new").replace(tmp_path / "data")
        assert await read(port, after) == "numbers\n"


@pytest.mark.asyncio
async def test_broken_renewal_keeps_the_certificate_of_before(tmp_path: Path) -> None:
    authority = trustme.CA()
    async with serving(ServerCertificate(write(tmp_path, authority))) as port:
        (tmp_path / "tls.key").write_text("half")
        with capture_logs() as logs:
            for _ in range(3):
                assert await read(port, authority) == "numbers\n"
        (line,) = logs
        assert line["event"] == "certificate not reloaded, serving the previous one"
        (tmp_path / "tls.crt").unlink()
        assert await read(port, authority) == "numbers\n"


@pytest.mark.asyncio
async def test_self_signed_certificate_encrypts() -> None:
    async with serving(ServerCertificate(SecureServing())) as port:
        assert await read(port, None) == "numbers\n"
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await read(port, trustme.CA())
        with pytest.raises(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session:
                await session.get(f"http://127.0.0.1:{port}/")


@pytest.mark.skipif(sys.platform != "linux", reason="files in memory are Linux'")
def test_self_signed_certificate_needs_no_folder_to_write_to(monkeypatch: pytest.MonkeyPatch) -> None:
    # The chart's containers have a read-only file system.
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert ServerCertificate(SecureServing()).context()


def test_self_signed_certificate_is_valid_for_a_year() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = x509.load_pem_x509_certificate(self_signed(now))
    assert made.not_valid_before_utc < now
    assert made.not_valid_after_utc == now + timedelta(days=365)


@pytest.mark.parametrize(("missing", "option"), [("tls.crt", "--metrics-cert-name"), ("tls.key", "--metrics-cert-key")])
def test_missing_file_is_named(tmp_path: Path, missing: str, option: str) -> None:
    given = write(tmp_path, trustme.CA())
    (tmp_path / missing).unlink()
    words = f"{missing}: No such file or directory: see that --metrics-cert-path is its folder and {option} its name"
    with pytest.raises(ConfigError, match=words):
        ServerCertificate(given)


@pytest.mark.parametrize("key", ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "other"])
def test_certificate_without_its_key_is_refused(tmp_path: Path, key: str) -> None:
    given = write(tmp_path, trustme.CA())
    other = trustme.CA().issue_cert("a").private_key_pem.bytes().decode()
    (tmp_path / "tls.key").write_text(other if key == "other" else key)
    with pytest.raises(ConfigError, match=r"tls.crt and .*tls.key: no certificate with its key, as PEM: "):
        ServerCertificate(given)


def test_missing_package_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    normal = builtins.__import__

    def without_cryptography(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return normal(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_cryptography)
    with pytest.raises(ConfigError, match=r"pip install 'kcr\[secure\]', or name the folder of a certificate"):
        self_signed(datetime(2026, 1, 1, tzinfo=UTC))
