"""The debug page of `kcr dev`: served with its cluster on a port of this machine, printed, and named in the kubeconfig.

The kubeconfig names it in an extension of its cluster, so that `kcr explain` and `kcr debug` find it; other clients
leave extensions that they do not know alone.
"""

import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from kcr.api.bindaddress import BindAddress
from kcr.cli.debug.port import EXTENSION
from kcr.errors import ConfigError
from kcr.serving.debug.access import DebugOptions
from kcr_devcluster.dev.cluster import DevCluster
from kcr_devcluster.dev.cluster_pages import ClusterPages
from kcr_devcluster.dev.private_file import PrivateFile
from kcr_devcluster.yaml_json import load_yaml
from kcr_devcluster.yaml_writer import yaml_text

_HOST = "127.0.0.1"


def check_port(port: int) -> None:
    """Refuse a port that is taken, before anything is started.

    Raises:
        ConfigError: It is taken, or may not be used.
    """
    try:
        socket.create_server((_HOST, port)).close()
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ConfigError(
            f"cannot listen on port {port} of {_HOST}: {reason}: name another with --debug-port"
        ) from error


class DevPage:
    """Serves the page once the manager of the cluster runs."""

    def __init__(
        self, dev: DevCluster, file: PrivateFile, announce: Callable[[str], object], pages: ClusterPages
    ) -> None:
        """Make it; `expose` lets it be served.

        Args:
            dev: The cluster.
            file: Its kubeconfig.
            announce: Called with a line that names the address.
            pages: Show the objects of the cluster, and logs.
        """
        self._dev = dev
        self._file = file
        self._announce = announce
        self._token = secrets.token_urlsafe(16)
        self._routes = pages.routes

    def expose(
        self, port: int, metrics: str | BindAddress | None, options: Mapping[str, Any], files: Sequence[str]
    ) -> None:
        """Let the manager serve the page, and print its address when it does.

        Args:
            port: 0 for a free one.
            metrics: Where the metrics are; None or `0` for nowhere.
            options: The options of the command line, by parameter name.
            files: The files of manifests.
        """
        shown = {**options, "files": [without_credentials(file) for file in files]}
        debug = DebugOptions(
            "kcr dev", options=shown, token=self._token, routes=self._routes, on_listening=self._listening
        )
        self._dev.manager.expose(metrics=metrics, probes=BindAddress(_HOST, port), debug=debug)

    def _listening(self, address: str) -> None:
        self._file.write(with_debug_port(self._dev.kubeconfig, f"http://{address}", self._token))
        self._announce(f"page http://{address}/debug/kcr?token={self._token}")


def with_debug_port(kubeconfig: str, address: str, token: str) -> str:
    """Return a kubeconfig whose clusters name a debug port.

    Args:
        kubeconfig: The text of the kubeconfig.
        address: The URL of the port, without a path.
        token: The token that it requires.
    """
    config = load_yaml(kubeconfig)
    # Not `token`: programs search the file for the user's under that name.
    for named in config["clusters"]:
        extension = {"name": EXTENSION, "extension": {"address": address, "accessToken": token}}
        named["cluster"]["extensions"] = [extension]
    return yaml_text(config)


def without_credentials(file: str) -> str:
    """Return the argument of `-f` for display: a URL without user and query, which may contain a token."""
    if "://" not in file:
        return file
    parts = urlsplit(file)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
