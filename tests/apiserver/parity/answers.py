"""What the corpus says of an answer: its essentials, in a line that a reviewer can read.

An answer is `ok`, or the fields that an accepted object has in the answer; the errors of a 422, `field: message` each
(with `~` before it, what follows the reason is not compared: it has addresses of Go, or a text of another build); or
`code`, `reason` and `message` of another refusal (with `~`, part of the message).
"""

import json
import re
from collections.abc import Mapping
from typing import Any

# The reasons of causes, by how their messages begin.
REASONS = {
    "Required value": "FieldValueRequired", "Invalid value": "FieldValueInvalid", "Forbidden": "FieldValueForbidden",
    "Unsupported value": "FieldValueNotSupported", "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound", "Too long": "FieldValueTooLong", "Too many": "FieldValueTooMany",
}  # fmt: skip
_AGE = re.compile(r'"[0-9]+s"(?=\])')
# What the schemas of custom resources say of a value of another type, which has a reason of its own.
_OF_TYPE = " in body must be of type "


def causes_of(body: Mapping[str, Any]) -> list[str]:
    """Return the causes of a refusal, in order; a reason that the message does not tell is added."""
    return sorted(_cause(one) for one in (body.get("details") or {}).get("causes", ()))


def _cause(cause: Mapping[str, str]) -> str:
    message, reason = cause.get("message", ""), cause.get("reason", "")
    told = "FieldValueTypeInvalid" if _OF_TYPE in message else REASONS.get(message.partition(":")[0], "")
    text = f"{cause.get('field', '')}: {message}"
    return text if told == reason else f"{text} ({reason})"


def refusal(code: int, body: Any) -> Any:
    """Return what the corpus says of a refusal."""
    if not isinstance(body, Mapping):
        return {"code": code, "message": str(body)}
    if code == 422 and (causes := causes_of(body)):
        return causes
    return {"code": code, "reason": body.get("reason", ""), "message": body.get("message", "")}


def alike(recorded: Any, found: Any) -> bool:
    """Return whether an answer is the recorded one, but for what follows `~` and ages; 1 and 1.0 are not alike."""
    if _ageless(recorded) == _ageless(found):
        return True
    if isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        return all(any(_begins(str(wanted), str(said)) for said in found) for wanted in recorded)
    if isinstance(recorded, dict) and isinstance(found, dict) and str(recorded.get("message")).startswith("~"):
        part = recorded["message"][1:] in str(found.get("message"))
        return part and all(recorded[name] == found.get(name) for name in recorded if name != "message")
    return False


def _ageless(answer: Any) -> str:
    """Return an answer as text, with the ages at the ends of a table's rows, which take their time, as one."""
    return _AGE.sub('"0s"', json.dumps(answer, sort_keys=True))


def _begins(wanted: str, said: str) -> bool:
    """Return whether an error is that which is wanted: its field and reason alone, where `~` is before it."""
    if not wanted.startswith("~"):
        return wanted == said
    field, _, text = wanted[1:].partition(": ")
    return said.startswith(f"{field}: {text.partition(':')[0]}")


def shortened(text: Any, longest: int = 160) -> str:
    """Return what a value looks like, in one line of limited length."""
    line = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    line = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in line)
    return line if len(line) <= longest else f"{line[:longest]}…"
