"""Names of fields as expressions write them.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/cel/escaping.go.
"""

import re

RESERVED = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[./-]")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_./-]*")


def escape(name: str) -> str:
    """Return the name of a field as expressions write it, `""` where they cannot."""
    if name in RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], name) if _NAME.fullmatch(name) else ""
