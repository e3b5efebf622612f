#!/usr/bin/env bash
# msgspec: subclasses of dict, list and tuple are encoded, those of str, int, float, bytes and datetime are not, unless they are enums.
#
# Seen with msgspec 0.23.0, MarkupSafe 3.0.4, numpy 2.4.6, CPython 3.11 (2026-11-30):
# The `json` module encodes every subclass of what it encodes. `msgspec.json.encode`, `msgspec.msgpack.encode` and
# `msgspec.to_builtins` encode an OrderedDict, a Counter and a named tuple, and raise TypeError ("Encoding objects of type Markup is
# unsupported") for a subclass of a scalar: MarkupSafe's `Markup`, a `str`; numpy's `float64`, a `float`. Members of an enum that is
# a `str` or an `int` as well are encoded by their values. As the key of a dict a `Markup` is encoded, and a `float64` is refused, where
# a `float` is not. `msgspec.convert` keeps a `Markup` where a field is declared `str`, so an object that it has validated cannot be
# written; a `float64` where `float` is declared is refused. `Encoder(enc_hook=…)` is called for all such values and keys.
#
# Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check msgspec==0.23.0 MarkupSafe==3.0.4 numpy==2.4.6
exec "$folder/venv/bin/python" - <<'PYTHON'
import collections
import enum
import json
import sys

import markupsafe
import msgspec
import numpy

Place = collections.namedtuple("Place", "row column")


class Colour(str, enum.Enum):
    RED = "red"


class Sign(msgspec.Struct):
    text: str = ""
    metres: float = 0.0


VALUES = {
    "OrderedDict": collections.OrderedDict(a=1), "Counter": collections.Counter("a"), "named tuple": Place(1, 2),
    "str enum": Colour.RED, "Markup": markupsafe.Markup("b"), "float64": numpy.float64(1.5),
    "key Markup": {markupsafe.Markup("b"): 1}, "key float": {1.5: 1}, "key float64": {numpy.float64(1.5): 1},
}


def seen(encode, value):
    try:
        encode(value)
    except TypeError as error:
        return f"TypeError: {error}"
    return "encoded"


print(f"msgspec {msgspec.__version__}, Python {sys.version.split()[0]}")
hooked = msgspec.json.Encoder(enc_hook=lambda value: float(value) if isinstance(value, float) else str.__str__(value))
found = {}
for name, value in VALUES.items():
    ways = (json.dumps, msgspec.json.encode, msgspec.msgpack.encode, msgspec.to_builtins, hooked.encode)
    words = [seen(encode, value) for encode in ways]
    found[name] = "".join("+" if one == "encoded" else "-" for one in words)
    print(f"{name}: json {words[0]}; msgspec {words[1]}; with enc_hook {words[4]}")
sign = msgspec.convert({"text": markupsafe.Markup("b")}, Sign)
kept, written = type(sign.text) is markupsafe.Markup, seen(msgspec.json.encode, sign)
print(f"a Markup where str is declared: convert keeps it: {kept}; the object: {written}")
try:
    refused = ""
    msgspec.convert({"metres": numpy.float64(1.5)}, Sign)
except msgspec.ValidationError as error:
    refused = str(error)
print(f"a float64 where float is declared: convert refuses: {refused}")
expected = dict.fromkeys(VALUES, "+++++") | {"Markup": "+---+", "float64": "+---+", "key float64": "+---+"}
sys.exit(found != expected or not kept or written == "encoded" or not refused)
PYTHON
