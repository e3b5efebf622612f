"""How commands about objects run: quietly, until they end or a signal ends them, connected to a cluster."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

from kcr.api.meta import Resource
from kcr.app.logs import configure_logs
from kcr.app.process import run_to_end
from kcr.client import Client, ClusterConfig, HttpTransport, load_config
from kcr.client.cluster_config import explain_failure
from kcr.errors import ApiError, ConfigError, NotFoundError, TransportError

# As of a shell whose program SIGINT has ended.
_INTERRUPTED = 130


def run_quietly(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a command, and return its exit code: 130 when a signal ended it.

    Args:
        main: The command. An error that it raises ends it with one line, so the client logs none.
    """
    configure_logs(None, "critical")
    code = run_to_end(main)
    return _INTERRUPTED if code is None else code


class Connection(NamedTuple):
    """A cluster that a command is connected to.

    Attributes:
        client: Talks to its API server.
        namespace: The namespace to work in.
        config: How the cluster is reached.
    """

    client: Client
    namespace: str
    config: ClusterConfig


@asynccontextmanager
async def connected(values: Mapping[str, Any]) -> AsyncIterator[Connection]:
    """Connect to the cluster of the options.

    Args:
        values: `kubeconfig`, `context`, `exec_plugins` and `namespace`, as `options.object_options` adds them.

    Raises:
        ConfigError: The server cannot be used; the message has the cause and the remedy.
    """
    config = load_config(values["kubeconfig"], values["context"], exec_plugins=values["exec_plugins"])
    async with HttpTransport(config) as transport:
        try:
            yield Connection(Client(transport), values["namespace"] or config.namespace, config)
        except NotFoundError as error:
            raise ConfigError(error.message) from error
        except (ApiError, TransportError) as error:
            raise ConfigError(explain_failure(error, config)) from error


@contextmanager
def searched(kind: type[Resource]) -> Iterator[None]:
    """Say where to look for an object of a kind that the body does not find.

    Args:
        kind: The kind of the object that the user has named.

    Raises:
        ConfigError: The body has raised a NotFoundError.
    """
    try:
        yield
    except NotFoundError as error:
        listed = f"kubectl get {kind.resource.plural}"
        hint = f"name its namespace with -n, or see `{listed} -A`" if kind.resource.namespaced else f"see `{listed}`"
        raise ConfigError(f"{error.message}: {hint}") from error
