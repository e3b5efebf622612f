"""What the corpus says of an answer: its essentials, in a line that a reviewer can read.

An answer is `ok`, or the fields that an accepted object has in the answer; one error or a list of them,
`field: message`, of a 422 (after `~`, the message counts no further than its reason); or `code`, `reason`, `message`
of another refusal (after `~`, part of the message).
"""

from collections.abc import Mapping
from typing import Any

# The reasons of causes, by how their messages begin.
REASONS = {
    "Required value": "FieldValueRequired", "Invalid value": "FieldValueInvalid", "Forbidden": "FieldValueForbidden",
    "Unsupported value": "FieldValueNotSupported", "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound", "Too long": "FieldValueTooLong", "Too many": "FieldValueTooMany",
}  # fmt: skip
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
