"""Where a handler connects to: ports by number or name, and URLs.

Source: kubernetes/pkg/probe/util.go, ResolveContainerPort, and pkg/probe/http/request.go, formatURL.
"""

from kcr.api.kubelet import HTTPGetAction, KubeletContainer

_LAST_PORT = 65535


def resolve_port(port: int | str, container: KubeletContainer) -> int:
    """Return the number of a port.

    Args:
        port: A number, the name of one of the container's ports, or a number as text.
        container: The container.

    Raises:
        ValueError: There is no such port.
    """
    if isinstance(port, str):
        named = next((one.container_port for one in container.ports if one.name == port), None)
        if named is None and not port.isdecimal():
            raise ValueError(f'strconv.Atoi: parsing "{port}": invalid syntax')
        port = int(port) if named is None else named
    if not 0 < port <= _LAST_PORT:
        raise ValueError(f"invalid port number: {port}")
    return port


def url_of(action: HTTPGetAction, container: KubeletContainer, ip: str) -> str:
    """Return the URL of a GET.

    Args:
        action: The GET.
        container: The container whose ports it may name.
        ip: The host where the action names none.

    Raises:
        ValueError: There is no such port.
    """
    host = action.host or ip
    shown = f"[{host}]" if ":" in host else host
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    return f"{(action.scheme or 'http').lower()}://{shown}:{resolve_port(action.port, container)}{path}"
