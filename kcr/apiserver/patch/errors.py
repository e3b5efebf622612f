"""What is wrong with a patch."""

from typing import Final

from kcr.errors import ApiError

# The server's one answer to a JSON patch that does not apply.
UNPROCESSABLE: Final = "the server rejected our request due to an error in our request"


class PatchError(ApiError):
    """The patch makes no sense, or does not apply; the server answers with it as it is."""

    @classmethod
    def malformed(cls, detail: str) -> "PatchError":
        """Return the refusal of a document that is no patch."""
        return cls(400, "BadRequest", f"error decoding patch: {detail}")

    @classmethod
    def unprocessable(cls) -> "PatchError":
        """Return the refusal of an operation that fails; upstream does not say which."""
        return cls(422, "Invalid", UNPROCESSABLE)

    @classmethod
    def internal(cls, detail: str) -> "PatchError":
        """Return the refusal of directives that contradict each other or the kind."""
        return cls(500, "", detail)


def kind_of(value: object) -> str:
    """Return what JSON calls a value: `object`, `array`, `string`, `number`, `bool` or `null`."""
    names: dict[type, str] = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    return names.get(type(value), "number")
