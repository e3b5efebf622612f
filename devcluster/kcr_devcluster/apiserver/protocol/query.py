"""The query of a request: its parameters, with the messages of upstream's parsers."""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import parse_qsl

from kcr.api.durations import parse_duration, parse_int
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden, not_supported, required, too_long
from kcr_devcluster.apiserver.protocol.field_errors import invalid as invalid_field
from kcr_devcluster.apiserver.protocol.responses import bad_request, invalid, invalid_option

_UNSIGNED, _INTEGER = re.compile(r"[0-9]+"), re.compile(r"[+-]?[0-9]+")
_LONGEST_MANAGER = 128
_FALSE = ("0", "false")
# An escape that Go's parsers refuse.
BROKEN_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


def parse_integer(text: str, function: str) -> int:
    """Return a number of 64 bits.

    Args:
        text: The number.
        function: `ParseInt`, or `ParseUint` for one that is not negative; it is named in the message.

    Raises:
        StatusError: 400, it is none.
    """
    form, bits = (_INTEGER, 64) if function == "ParseInt" else (_UNSIGNED, 65)
    if not form.fullmatch(text):
        raise bad_request(f'strconv.{function}: parsing "{text}": invalid syntax')
    number = parse_int(text, bits)
    if number is None:
        raise bad_request(f'strconv.{function}: parsing "{text}": value out of range')
    return number


def field_manager_faults(name: str) -> list[FieldError]:
    """Return the field errors of a `fieldManager`.

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go, ValidateFieldManager.
    """
    errors = [too_long("fieldManager", _LONGEST_MANAGER)] if len(name.encode()) > _LONGEST_MANAGER else []
    for position, character in enumerate(name):
        if not character.isprintable():
            words = f"invalid character U+{ord(character):04X} (at position {len(name[:position].encode())})"
            errors.append(invalid_field("fieldManager", name, words))
            break
    return errors


def dry_run_faults(given: Sequence[object]) -> list[FieldError]:
    """Return the field errors of a `dryRun`.

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go, ValidateDryRun.
    """
    return [] if set(given) <= {"All"} else [not_supported("dryRun", list(given), ["All"])]


class Query:
    """The query of a request. Unknown parameters are ignored."""

    def __init__(self, text: str, ignored: Iterable[str] = ()) -> None:
        """Parse a query.

        Args:
            text: The query.
            ignored: Parameters of features that are off.
        """
        if "%" in text or ";" in text:
            text = "&".join(pair for pair in text.split("&") if ";" not in pair and not BROKEN_ESCAPE.search(pair))
        self._text = text
        # Of several values of a parameter, the first one counts.
        self._values = dict(reversed(parse_qsl(text, keep_blank_values=True))) if text else {}
        for name in ignored:
            self._values.pop(name, None)

    def text(self, name: str) -> str:
        """Return a parameter, `""` when it is absent."""
        return self._values.get(name, "")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values of a parameter, in their order."""
        return tuple(value for key, value in parse_qsl(self._text, keep_blank_values=True) if key == name)

    def has(self, name: str) -> bool:
        """Return whether the query has a parameter, even an empty one."""
        return name in self._values

    def flag(self, name: str) -> bool:
        """Return a boolean: what is given is true, also an empty text, but for `0` and `false`."""
        return self._values.get(name, "0").lower() not in _FALSE

    def integer(self, name: str) -> int | None:
        """Return a number, None when it is absent.

        Raises:
            StatusError: 400, it is no number; an empty text is none.
        """
        text = self._values.get(name)
        return None if text is None else parse_integer(text, "ParseInt")

    def write_options(self, kind: str) -> dict[str, object]:
        """Return the options of a write, as admission reviews show them.

        Args:
            kind: `CreateOptions` or `UpdateOptions`.

        Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go, patchToUpdateOptions.
        """
        options: dict[str, object] = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self._values:
            if text := self.text("dryRun"):
                options["dryRun"] = [text]
            options |= {name: text for name in ("fieldManager", "fieldValidation") if (text := self.text(name))}
        return options

    def timeout_seconds(self) -> float | None:
        """Return the timeout of the request, None for none; one below zero is none.

        Raises:
            StatusError: 400, it is no duration.
        """
        if not (text := self.text("timeout")):
            return None
        try:
            nanoseconds = parse_duration(text)
        except ValueError as error:
            raise bad_request(f"invalid timeout specified in the request URL - {error}") from error
        return nanoseconds / 1e9 if nanoseconds > 0 else None

    def dry_run(self, options: str, *, is_apply: bool = False) -> bool:
        """Return whether the write is only tried.

        Args:
            options: The name of the options in messages.
            is_apply: Whether the write is a server-side apply, which has to name its field manager and may force.

        Raises:
            StatusError: 422, an option of writes has an unknown value.
        """
        if (validation := self.text("fieldValidation")) not in _VALIDATIONS:
            raise invalid_option(options, not_supported("fieldValidation", validation, _VALIDATIONS))
        manager = self.text("fieldManager")
        errors = field_manager_faults(manager) if manager else []
        if is_apply:
            errors += [] if manager else [required("fieldManager", "is required for apply patch")]
        elif options == "PatchOptions" and self.has("force"):
            errors.append(forbidden("force", "may not be specified for non-apply patch"))
        if errors:
            raise invalid(options, "meta.k8s.io", "", errors)
        if "dryRun" not in self._values:
            return False
        if errors := dry_run_faults(self.texts("dryRun")):
            raise invalid(options, "meta.k8s.io", "", errors)
        return True
