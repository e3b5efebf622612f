"""The web page at `/debug/kcr`: one self-contained document."""

_HTML = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>kcr</title>
<ul>
<li><a href="/debug/kcr/state">state</a>
<li><a href="/debug/kcr/stacks">stacks</a>
<li><a href="/debug/kcr/options">options</a>
</ul>
"""


def page_html() -> bytes:
    """Return the document."""
    return _HTML
