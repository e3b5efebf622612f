"""Names in Python for names on the wire."""

import keyword
import re
from collections.abc import Iterable
from functools import cache

import msgspec

_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=V\d)|V\d+|[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+")
# What a field of this name would hide from the annotations below it, or from its class; and what from that of a kind.
_HIDES = frozenset(("bool", "bytes", "crd_options", "datetime", "float", "int", "msgspec", "str", "tuple"))
_KIND_HIDES = frozenset(("detached", "key", "resource"))
# What modules of types import.
RESERVED = frozenset(
    ("Annotated", "Any", "Condition", "FullResource", "IntOrString", "ListType", "Literal", "Mapping", "MicroTime",
     "None", "Object", "ObjectMeta", "PrinterColumn", "Quantity", "Requirement", "ScaleSubresource", "Self", "True",
     "False", "Validation", "LabelSelector", "OwnerReference")
)  # fmt: skip


def field_name(wire: str, *, of_kind: bool = False) -> str:
    """Return the name of a field in Python: `pod_ip` for `podIP`, `from_` for `from`.

    Args:
        wire: Its name on the wire.
        of_kind: Whether it is a field of a kind, which has members of its own.
    """
    name = "_".join(word.lower() for word in _WORD.findall(wire)) or "field"
    name = f"_{name}" if name[0].isdigit() else name
    hides = name in _HIDES or (of_kind and name in _KIND_HIDES)
    return f"{name}_" if keyword.iskeyword(name) or hides else name


def field_names(wires: Iterable[str], *, of_kind: bool) -> dict[str, str]:
    """Return the names of the fields of a class, by their names on the wire; no two are the same."""
    found: dict[str, str] = {}
    for wire in wires:
        name = field_name(wire, of_kind=of_kind)
        while name in found.values():
            name += "_"
        found[wire] = name
    return found


@cache
def encoded(name: str) -> str:
    """Return the default name of a field on the wire."""
    made = msgspec.defstruct("Made", [(name, int)], rename="camel")
    return str(msgspec.structs.fields(made)[0].encode_name)


def class_name(*words: str) -> str:
    """Return the name of a class made of names on the wire: `WebsiteSpec` for Website and spec."""
    name = "".join(word[0].upper() + word[1:] for text in words for word in re.findall(r"[A-Za-z0-9]+", text))
    return f"{name}Type" if name in RESERVED or not name[:1].isalpha() else name
