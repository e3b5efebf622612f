"""JSON values as YAML: the one writer of all manifests, roles, kubeconfigs and answers in YAML.

A text is quoted where any reader would take it for something else: readers of YAML 1.1, those of YAML 1.2, and the one
of Kubernetes, to which `y` and `off` are booleans, and `1e3`, `08`, `0o17` and `0X1F` numbers.

Source: yaml.org/type, bool, int and float of YAML 1.1; go.yaml.in/yaml/v2, resolve.go; sigs.k8s.io/yaml.
"""

import re
from collections.abc import Iterable
from typing import Any

import yaml

# What readers take for something else, beside all that PyYAML does: type, first characters, pattern.
_READINGS = (
    ("bool", "yYnN", r"[yYnN]"),
    ("int", "-+0123456789_", r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9_]*[0-9][0-9_]*)"),
    ("float", "-+.0123456789_", r"[-+]?(?=[._]*[0-9])[0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9_]+)?"),
    # Of base 60, whatever its first digit.
    ("int", "-+0123456789", r"[-+]?[0-9][0-9_]*(?::[0-9_]+)+(?:\.[0-9_]*)?"),
)
# Characters that not all readers know, or that they take for ends of lines.
_UNUSUAL = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010fffe]")


def yaml_text(value: object, *, fast: bool = False) -> str:
    """Return a JSON value as YAML: block style, members in their order, lists not indented, as kubectl writes it.

    Args:
        value: Plain values: maps, lists, texts, numbers, booleans and None.
        fast: Whether libyaml writes it where it is installed: the lines of long texts end elsewhere then, so this is
            not for files that are compared.
    """
    return str(yaml.dump(value, Dumper=_FAST if fast else _DUMPER, sort_keys=False, width=120, allow_unicode=True))


def yaml_documents(values: Iterable[object]) -> str:
    """Return several JSON values as one YAML stream; see `yaml_text`."""
    return "---\n".join(map(yaml_text, values))


def _dumper(base: Any) -> Any:
    """Return the class of a writer that writes every value out and quotes as this module says."""
    made: Any = type("Dumper", (base,), {"ignore_aliases": lambda dumper, data: True})
    for kind, first, pattern in _READINGS:
        made.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"(?:{pattern})$"), list(first))
    made.add_representer(str, _represent_text)
    return made


def _represent_text(dumper: Any, text: str) -> Any:
    style = '"' if _UNUSUAL.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_DUMPER = _dumper(yaml.SafeDumper)
_FAST = _dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper))
