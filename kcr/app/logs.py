"""Log lines on stderr, as JSON or for people."""

import json
import logging
import os
import sys
from collections.abc import Collection, MutableMapping
from typing import Any

import msgspec
import structlog
from structlog.typing import Processor

from kcr.ratelimitedlog import KeyLogLimit
from kcr.tracing import add_trace_ids

# How a plain line begins, as kubectl's do.
_MARKS = {"warning": "Warning: ", "error": "Error: ", "critical": "Error: "}

# So many tracebacks are remembered by those who show each of them once.
_MAX_TRACES = 100


class _Stderr:
    """Writes to whatever stderr is at the moment: the live display of `kcr dev` stands in for it for a while."""

    def write(self, text: str) -> None:
        """Write to the present stderr; when its reader has gone, the line is lost, and what logs it goes on."""
        # A surrogate is escaped, which only the interpreter's own stderr does by itself.
        try:
            sys.stderr.write(text.encode(errors="backslashreplace").decode())
        except OSError:
            discard_stderr()

    def flush(self) -> None:
        """Flush the present stderr."""
        flush_stderr()


def flush_stderr() -> None:
    """Flush stderr; that its reader has closed it is no error."""
    try:
        sys.stderr.flush()
    except OSError:
        discard_stderr()


def discard_stderr() -> None:
    """Send what stderr still holds, and all that follows, to the null device, because its reader has closed it.

    Otherwise the interpreter would write it once more at its exit, fail, and end with code 120.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)


def _as_json(value: object, **_: object) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:
        # A surrogate, as in the path of a request that is no UTF-8: it is escaped.
        return json.dumps(value, default=str)


class _PlainLines:
    """Renders records as lines of talk, `Warning: watch closed (kind=pods)`, with a traceback below.

    The same traceback is shown once: a reconcile that fails is tried again, ten times in its first five seconds.
    """

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def __call__(self, _logger: object, _method: str, fields: MutableMapping[str, Any]) -> str:
        mark = _MARKS.get(fields.pop("level", ""), "")
        # What a server warns of is said in its own words, as kubectl says it.
        event = fields.pop("event", "")
        event = fields.pop("warning", event)
        fields.pop("timestamp", None)
        trace = fields.pop("exception", "")
        details = ", ".join(f"{name}={value}" for name, value in fields.items())
        line = f"{mark}{event} ({details})" if details else f"{mark}{event}"
        if not trace or trace in self._shown:
            return line
        if len(self._shown) == _MAX_TRACES:
            self._shown.clear()
        self._shown.add(trace)
        return f"{line}\n{trace}"


class _Omitted:
    """A structlog processor that drops lines by their message."""

    def __init__(self, messages: Collection[str]) -> None:
        self._messages = frozenset(messages)

    def __call__(self, _logger: object, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if fields.get("event") in self._messages:
            raise structlog.DropEvent
        return fields


def omit_logs(*messages: str) -> None:
    """Write no lines with these messages from now on; `configure_logs` comes before."""
    structlog.configure(processors=[_Omitted(messages), *structlog.get_config()["processors"]])


def configure_logs(form: str | None, level: str) -> None:
    """Set up structlog, and render the records of the standard library's logging in the same form.

    Args:
        form: `json`, `console` or `plain`; None chooses `json` or `console` by whether stderr is a terminal.
        level: `debug`, `info`, `warning`, `error` or `critical`; no line has the last.
    """
    number: int = getattr(logging, level.upper())
    human = form == "console" or (form is None and sys.stderr.isatty())
    chain: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_trace_ids,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderers: list[Processor] = [
        structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_as_json)
    ]  # fmt: skip
    if form == "plain":
        renderers = [structlog.processors.format_exc_info, _PlainLines()]
    elif human:
        # Tracebacks without the values of variables: tokens are among them.
        plain = structlog.dev.plain_traceback
        renderers = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[chain[0], KeyLogLimit(), *chain[1:], *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=_Stderr()),  # type: ignore[arg-type]  # writes and flushes
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(_Stderr())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *chain],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    # Libraries are quieter than we are: their info lines are about every request.
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)
