"""Whether a proxy stands between us and the server. Decided once, at start (ST-19)."""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy that the environment names for a server, empty for none.

    `HTTPS_PROXY` or `HTTP_PROXY`, by the server's scheme, in either case; `NO_PROXY` and the own machine
    are excepted.

    Source: golang.org/x/net/http/httpproxy, Config.ProxyFunc.
    """
    url = urlsplit(server)
    host = url.hostname or ""
    proxy = _variable(f"{url.scheme}_proxy", environ)
    if not proxy or host == "localhost" or (_is_address(host) and ip_address(host).is_loopback):
        return ""
    port = str(url.port or (443 if url.scheme == "https" else 80))
    if any(_excepts(entry.strip().lower(), host, port) for entry in _variable("no_proxy", environ).split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str, environ: Mapping[str, str]) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _excepts(entry: str, host: str, port: str) -> bool:
    if not entry or entry == "*":
        return entry == "*"
    if "/" in entry:
        return _is_in_network(host, entry)
    name, _, wanted_port = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
    if wanted_port and wanted_port != port:
        return False
    if _is_address(name.strip("[]")):
        return _is_address(host) and ip_address(host) == ip_address(name.strip("[]"))
    suffix = "." + name.removeprefix("*").removeprefix(".")
    return host.endswith(suffix) or (not name.startswith((".", "*")) and host == name)


def _is_in_network(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def without_password(url: str) -> str:
    """Return a URL without the name and password in it, for messages."""
    head, separator, rest = url.rpartition("@")
    return f"{head.partition('://')[0]}://{rest}" if separator else url
