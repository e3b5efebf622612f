"""Write how Go shows internal structs: `python -m tools.go_structs k8s.io/kubernetes k8s.io/apiextensions-apiserver`.

The arguments are checkouts of kubernetes and k8s.io/apiextensions-apiserver, at the version of `tools.schema`. The API
server validates objects in internal types, which have no names for JSON: a message shows all their fields, named as in
Go, in the order of the struct. The table has the fields of each published type whose internal type has its name, with
what a field that is not set looks like: `:s` for `""`, `:i` for 0, `:b` for false, `:q` for the quantity "0", `:o` for
a struct, nothing for null. The fields of embedded structs stand among the others; `@` stands for those of ObjectMeta.

Source: pkg/apis/*/types.go.
"""

import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tools.schema import TABLE, VERSION, lines

STRUCTS = TABLE.with_name("go_structs.json")

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\t(?:(\w+)[ \t]+)?([\w.*\[\]{}]+)(?:[ \t]+`[^`]*`)?[ \t]*(?://.*)?$", re.MULTILINE)
_NAMED = re.compile(r"^type (\w+) (string|bool|u?int\d*|map\[|\[\])", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_ZEROS: Mapping[str, str] = {
    "string": ":s", "bool": ":b", "types.UID": ":s", "types.NodeName": ":s", "resource.Quantity": ":q",
    "intstr.IntOrString": ":i", "metav1.Time": "", "metav1.MicroTime": "", "runtime.RawExtension": "", "map[": "",
    "[]": "", "metav1.TypeMeta": "", "JSON": "",
    **{f"{sign}{name}": ":i" for sign in ("", "u") for name in ("int", "int32", "int64")}, "float64": ":i",
}  # fmt: skip

# Embedded structs that messages show by themselves.
_EMBEDDED = ("core.v1.PersistentVolumeSource",)

Structs = Mapping[str, list[tuple[str, str]]]


def go_structs(folders: list[Path]) -> str:
    """Return the table's text, made of the Go sources below the folders."""
    structs, named = dict[str, list[tuple[str, str]]](), dict[str, str]()
    for folder in folders:
        for path in sorted(folder.rglob("pkg/apis/*/types*.go")):
            text, package = _COMMENT.sub("", path.read_text()), path.parent.name
            structs |= {f"{package}.{name}": _FIELD.findall(body) for name, body in _STRUCT.findall(text)}
            named |= {f"{package}.{name}": base for name, base in _NAMED.findall(text)}
    types = msgspec.json.decode(TABLE.read_bytes())["types"]
    internal = {name: f"{name.split('.')[0]}.{name.rpartition('.')[2]}" for name in (*types, *_EMBEDDED)}
    entries = {
        name: " ".join(_entries(struct, structs, named)) for name, struct in internal.items() if struct in structs
    }
    rest = ',\n"types":{\n' + lines(entries) + "}}\n"
    digest = hashlib.sha256(rest.encode()).hexdigest()
    return f'{{"source":{{"kubernetes":"{VERSION}"}},"sha256":"{digest}"{rest}'


def _entries(struct: str, structs: Structs, named: Mapping[str, str]) -> Iterator[str]:
    package = struct.partition(".")[0]
    for name, of in structs[struct]:
        if name:
            # The context of a pod's security is always there: some fields of the pod are moved into it.
            is_moved = (struct, name) == ("core.PodSpec", "SecurityContext")
            yield name + (":o" if is_moved else _zero(of, package, named))
        elif of.endswith("ObjectMeta"):
            yield "@"
        elif f"{package}.{of}" in structs:
            yield from _entries(f"{package}.{of}", structs, named)


def _zero(of: str, package: str, named: Mapping[str, str]) -> str:
    if of.startswith(("*", "[]", "map[")) or of in ("interface{}", "runtime.Object"):
        return ""
    qualified = of.replace("api.", "core.") if "." in of else f"{package}.{of}"
    return _ZEROS.get(named.get(qualified, of), ":o")


if __name__ == "__main__":
    made = go_structs([Path(argument) for argument in sys.argv[1:]])
    STRUCTS.write_text(made)
    sys.stdout.write(f"{STRUCTS}: {len(made)} bytes\n")
