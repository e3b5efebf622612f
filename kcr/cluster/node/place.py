"""Where a node is, and what its processes are told of the server."""

from dataclasses import dataclass


@dataclass(slots=True)
class Place:
    """A node's name and surroundings.

    Attributes:
        name: The node's name.
        ip: Its address.
        shared: Whether pods have the node's address instead of one each.
        api_url: Where processes reach the server, such as `https://127.0.0.1:6443`; empty when they cannot.
        kubeconfig: The text of the file that their `$KUBECONFIG` names; empty for no file.
    """

    name: str
    ip: str = "127.0.0.1"
    shared: bool = False
    api_url: str = ""
    kubeconfig: str = ""
