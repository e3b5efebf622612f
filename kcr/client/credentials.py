"""Credentials: fixed ones, token files that rotate, exec credential plugins."""

import asyncio
import base64
import errno
import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from kcr.client.loops import PerLoop
from kcr.clock import Clock, SystemClock
from kcr.errors import TransportError
from kcr.log.lines import one_line

# How long the token of a file is taken as it was read. Kubelets rotate tokens well before they expire.
_REREAD_SECONDS = 60.0
_PLUGIN_SECONDS = 60.0
# A credential is renewed this long before it expires.
_MARGIN = timedelta(seconds=10)
# Parts of the names of options whose values are secrets.
_SECRET = re.compile("secret|token|passw|api-?key", re.IGNORECASE)


def redacted(value: object, *shown: str) -> str:
    """Return the repr of a value that holds secrets: its type, and the fields that are none."""
    fields = ", ".join(f"{name}={getattr(value, name)!r}" for name in shown)
    return f"{type(value).__name__}({fields}{', ' if fields else ''}…)"


class Credential(NamedTuple):
    """One credential.

    Attributes:
        authorization: The value of the Authorization header; empty for none.
        certificate: A client certificate as PEM; empty for none.
        key: Its key.
    """

    authorization: str = ""
    certificate: str = ""
    key: str = ""

    def __repr__(self) -> str:
        return redacted(self)

    @classmethod
    def bearer(cls, token: str) -> "Credential":
        """Return the credential of a bearer token."""
        return cls(f"Bearer {token.strip()}")

    @classmethod
    def basic(cls, username: str, password: str) -> "Credential":
        """Return the credential of a name and a password."""
        return cls("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())


ANONYMOUS = Credential()


class Credentials(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """Return the credential to use now.

        Raises:
            TransportError: None can be obtained at the moment.
        """
        ...

    def invalidate(self, credential: Credential) -> bool:
        """Drop a credential that the server did not accept; return whether to retry with another."""
        ...


class FixedCredentials:
    """A credential that never changes; by default none at all."""

    def __init__(self, credential: Credential = ANONYMOUS) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        """Return the credential."""
        return self._credential

    def invalidate(self, credential: Credential) -> bool:
        """Return False: there is no other."""
        return False


class TokenFile:
    """The token in a file, read again once a minute and when the server refuses it."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._credential = Credential()
        self._read_at = float("-inf")

    async def current(self) -> Credential:
        """Return the token, at most a minute old; the last known one while the file cannot be read."""
        now = asyncio.get_running_loop().time()
        if now - self._read_at >= _REREAD_SECONDS:
            try:
                self._credential = Credential.bearer(self._path.read_text())
            except (OSError, ValueError) as error:
                if not self._credential.authorization:
                    raise TransportError(f"token file {self._path}: {error}") from error
            self._read_at = now
        return self._credential

    def invalidate(self, credential: Credential) -> bool:
        """Read the file again, and return whether it holds another token now."""
        try:
            fresh = Credential.bearer(self._path.read_text())
        except (OSError, ValueError):
            return False
        self._credential = fresh
        return fresh != credential


class PluginSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A credential plugin, as the kubeconfig describes it.

    Attributes:
        command: The absolute path of the program; one without a folder is not installed.
        args: Its arguments.
        env: Additional variables of the environment.
        api_version: The version of ExecCredential it speaks.
        cluster: The cluster as the plugin gets it; None unless `provideClusterInfo` is set.
        hint: How to install it.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    api_version: str = "client.authentication.k8s.io/v1"
    cluster: Mapping[str, object] | None = None
    hint: str = ""

    def __repr__(self) -> str:
        """Show the program; its arguments and variables may hold secrets."""
        return redacted(self, "command")

    @property
    def shown(self) -> str:
        """The command line for the user, without the values of options that are called like secrets."""
        shown, hides_next = [shlex.quote(self.command)], False
        for argument in self.args:
            name, equals, _ = argument.partition("=")
            is_secret = name.startswith("-") and _SECRET.search(name) is not None
            if hides_next and not argument.startswith("-"):
                shown.append("…")
            else:
                shown.append(f"{shlex.quote(name)}=…" if is_secret and equals else shlex.quote(argument))
            hides_next = is_secret and not equals
        return one_line(" ".join(shown))


class _PluginStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None

    def __repr__(self) -> str:
        return redacted(self, "expiration_timestamp")


class _PluginAnswer(msgspec.Struct, rename="camel"):
    status: _PluginStatus


class RenewedCredentials:
    """A credential that is obtained when there is none, shortly before it expires, and when the server refuses it."""

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock or SystemClock()
        self._credential: Credential | None = None
        self._expires: datetime | None = None
        # Held while one is obtained: concurrent callers of a loop wait for the same credential.
        self._obtaining = PerLoop(asyncio.Lock)

    async def current(self) -> Credential:
        """Return the credential; obtains one when there is none, or none for much longer.

        Raises:
            TransportError: None can be obtained.
        """
        async with self._obtaining.here():
            is_old = self._expires is not None and self._clock.now() >= self._expires - _MARGIN
            if (known := self._credential) is None or is_old:
                known, self._expires = await self._obtain()
                self._credential = known
            return known

    def invalidate(self, credential: Credential) -> bool:
        """Drop the credential, unless it has been replaced already; another one is obtained."""
        if self._credential == credential:
            self._credential = None
        return True

    async def _obtain(self) -> tuple[Credential, datetime | None]:
        """Return a new credential, and when it expires; None for never."""
        raise NotImplementedError


class PluginCredentials(RenewedCredentials):
    """The credential of an exec plugin, cached until shortly before it expires.

    Attributes:
        spec: The plugin.
        calls: Numbers of calls of the plugin, by exit code and result, for metrics.

    Source: kubernetes/staging/src/k8s.io/client-go/plugin/pkg/client/auth/exec/{exec,metrics}.go.
    """

    def __init__(self, spec: PluginSpec, *, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.spec = spec
        self.calls: Counter[tuple[int, str]] = Counter()

    async def _obtain(self) -> tuple[Credential, datetime | None]:
        answer = await self._run()
        authorization = f"Bearer {answer.token.strip()}" if answer.token else ""
        credential = Credential(authorization, answer.client_certificate_data, answer.client_key_data)
        return credential, answer.expiration_timestamp

    async def _run(self) -> _PluginStatus:
        name = f"credential plugin {self.spec.command}"
        try:
            if "/" not in self.spec.command:
                # The kubeconfig may set the PATH of the plugin, and the system would search that one.
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            process = await asyncio.create_subprocess_exec(
                self.spec.command,
                *self.spec.args,
                env={**os.environ, **self.spec.env, "KUBERNETES_EXEC_INFO": self._info()},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            self.calls[1, "plugin_not_found_error"] += 1
            hint = f"; {' '.join(self.spec.hint.split())}" if self.spec.hint else ""
            raise TransportError(f"{name}: {error.strerror or error}{hint}") from error
        try:
            async with asyncio.timeout(_PLUGIN_SECONDS):
                out, err = await process.communicate()
        except TimeoutError as error:
            self.calls[1, "client_internal_error"] += 1
            raise TransportError(f"{name}: no answer within {_PLUGIN_SECONDS:.0f} s") from error
        finally:
            if process.returncode is None:
                process.kill()
        code = process.returncode or 0
        self.calls[code, "plugin_execution_error" if code else "no_error"] += 1
        if code:
            said = " ".join(err.decode(errors="replace").split())[-256:]
            raise TransportError(f"{name}: exit code {code}: {said}")
        try:
            status = msgspec.json.decode(out, type=_PluginAnswer).status
        except ValueError as error:
            raise TransportError(f"{name}: its answer is not an ExecCredential: {error}") from error
        if not status.token and not (status.client_certificate_data and status.client_key_data):
            raise TransportError(f"{name}: its answer holds neither a token nor a certificate with its key")
        return status

    def _info(self) -> str:
        spec: dict[str, object] = {"interactive": False}
        if self.spec.cluster is not None:
            spec["cluster"] = self.spec.cluster
        info = {"apiVersion": self.spec.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()
