"""The web page at `/debug/kcr`: one file with its styles and its script inside, which asks for nothing else but JSON.

It reads `/state` and `/key` below its own path, and sends the parameter `token` of its address with each request. More
tabs, such as those of `kcr dev`, are styles and statements that are put into it before it is served. The names and
errors that it shows come from objects that others write, so it never reads a text as HTML, and the header
`Content-Security-Policy` allows the two inline blocks by their hashes and nothing else.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def page_html(style: str = "", script: str = "") -> bytes:
    """Return the page, as `text/html; charset=utf-8`.

    Args:
        style: More styles.
        script: More statements; they add to `tabs`.
    """
    html = resources.files("kcr.serving.debug").joinpath("page.html").read_text(encoding="utf-8")
    return html.replace("/* more styles */\n", style).replace("// ---- more tabs\n", script).encode()


@cache
def page_headers(html: bytes) -> Mapping[str, str]:
    """Return the headers to serve a page of `page_html` with.

    The page's address may hold a token, so no other address learns it (`Referrer-Policy`).
    """
    policy = [
        "default-src 'none'",
        f"script-src {_hash_of(html, 'script')}",
        f"style-src {_hash_of(html, 'style')}",
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


def _hash_of(html: bytes, element: str) -> str:
    (text,) = re.findall(rf"<{element}[^>]*>(.*?)</{element}>".encode(), html, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
