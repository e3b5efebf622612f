"""The web page at `/debug/kcr`: one file with its styles and its script inside, which asks for nothing else but JSON.

It reads `/state`, `/key`, `/cluster` and `/logs` below its own path, and sends the parameter `token` of its address
with each request. The names and errors that it shows come from objects that others write, so it never reads a text as
HTML, and the header `Content-Security-Policy` allows the two inline blocks by their hashes and nothing else.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def page_html() -> bytes:
    """Return the page, as `text/html; charset=utf-8`."""
    return resources.files("kcr.debug.page").joinpath("page.html").read_bytes()


@cache
def page_headers() -> Mapping[str, str]:
    """Return the headers to serve the page with.

    The page's address may hold a token, so no other address learns it (`Referrer-Policy`).
    """
    policy = [
        "default-src 'none'",
        f"script-src {_hash_of('script')}",
        f"style-src {_hash_of('style')}",
        "connect-src 'self'",
        "img-src data:",  # the icon
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    return {
        "Content-Security-Policy": "; ".join(policy),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }


def _hash_of(element: str) -> str:
    """Return the source expression that allows the page's only element of a name."""
    (text,) = re.findall(rf"<{element}[^>]*>(.*?)</{element}>".encode(), page_html(), re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
