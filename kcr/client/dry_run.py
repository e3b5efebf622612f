"""Dry runs: requests that the server checks, admits and answers, and whose outcome it does not keep.

The typed writes set `dryRun=All` themselves. Raw requests of a user's code, and those of kubernetes-asyncio, are
changed here, so that no write of a program in a dry run is real.
"""

import re
from urllib.parse import unquote

import msgspec

from kcr.client.wire.decoding import name_in
from kcr.client.wire.transport import Request
from kcr.errors import KcrError

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# They do something else than storing an object, and know no dry run.
_CONNECTS = re.compile(r"/(?:pods|services|nodes)/[^/]+/(?:exec|attach|portforward|proxy)(?:/|$)")
# Over WebSockets they are a GET.
_STREAMS = re.compile(r"/pods/[^/]+/(?:exec|attach|portforward)(?:/|$)")
# They are questions, though they are sent as a POST.
_REVIEWS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")


def as_dry_run(request: Request) -> Request:
    """Return a write as a dry run of it; a read as it is.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go, DeleteResource: the options in
    the body of a DELETE go before those in its query, which is not read then.

    Raises:
        KcrError: The request has no dry run.
    """
    path, _, query = request.target.partition("?")
    if (request.method in _READS and not _STREAMS.search(path)) or path.startswith(_REVIEWS):
        return request
    if _CONNECTS.search(path):
        raise KcrError(f"{request.method} {path}: not sent, for there is no dry run of it")
    if request.method == "DELETE" and request.body:
        try:
            options = {**msgspec.json.decode(request.body, type=dict), "dryRun": ["All"]}
        except ValueError as error:
            raise KcrError(f"DELETE {path}: not sent, for its body is no JSON object: no dry run of it") from error
        return request._replace(body=msgspec.json.encode(options))
    # An empty `dryRun=` is no dry run, and whichever value came first might count.
    kept = [part for part in query.split("&") if part and unquote(part.partition("=")[0]) != "dryRun"]
    return request._replace(target=f"{path}?{'&'.join((*kept, 'dryRun=All'))}")


def describe_write(request: Request) -> dict[str, str]:
    """Return the verb and the object's path of a write, for a log line; None for a read."""
    path = request.target.partition("?")[0]
    if request.method in _READS or path.startswith(_REVIEWS):
        return {}
    if request.method == "POST":
        path = f"{path}/{name_in(request.body)}".rstrip("/")
    return {"verb": _VERBS.get(request.method, request.method), "object": path}
