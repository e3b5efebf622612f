"""Servers of a test, on free ports of this machine."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trustme
from aiohttp import web

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handle: Handle, authority: trustme.CA, *, asks_for_certificate: bool = False) -> AsyncIterator[str]:
    """Serve over TLS on a free port, and give the URL."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    if asks_for_certificate:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    server = web.Server(handle)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
