"""Control endpoint of the faults: clients in any language add rules, read their counts, and remove them.

`POST /debug/kcr/faults` takes the content of a file of faults, `GET` shows the rules with their counts, `DELETE`
removes them all, or the one whose number follows in the path. Each responds with the rules that it is about. Only the
admin may do so, and rules take none of these requests.
"""

from collections.abc import Iterable

from kcr_devcluster.apiserver.authentication.users import MASTERS
from kcr_devcluster.apiserver.authorization import Authorizer, request_attributes
from kcr_devcluster.apiserver.authorization.impersonation import acting_user
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import APIResponse, StatusError, bad_request, encoded, json_response
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.cluster.faults.files import decode_faults
from kcr_devcluster.cluster.faults.rules import ActiveRule, RuleSet

PATH = "/debug/kcr/faults"


def serves(path: str) -> bool:
    """Return whether a path is one of this endpoint."""
    return path == PATH or path.startswith(f"{PATH}/")


def respond(rules: RuleSet, request: HTTPRequest, authorizer: Authorizer) -> APIResponse:
    """Handle a request on one of these paths.

    Args:
        rules: The rules.
        request: The request.
        authorizer: Decides whether its user may act as the one whom its headers name.
    """
    path, _, query = request.target.partition("?")
    wanted = request_attributes(request.method, path, Query(query))
    try:
        user = acting_user(request.user, request.headers.items(), wanted, authorizer)
        return _respond(rules, request._replace(user=user))
    except StatusError as error:
        return error.response()


def _respond(rules: RuleSet, request: HTTPRequest) -> APIResponse:
    path = request.target.partition("?")[0]
    if MASTERS not in request.user.groups:
        words = f'User "{request.user.username}" cannot {request.method.lower()} path "{path}"'
        raise StatusError(403, "Forbidden", f"forbidden: {words}: only the admin changes faults")
    number = path.removeprefix(PATH).removeprefix("/")
    if number:
        return _respond_one(rules, request.method, number)
    match request.method:
        case "GET":
            return _shown(rules)
        case "POST":
            return _add(rules, request.body)
        case "DELETE":
            return _shown(rules.remove())
    raise _not_allowed()


def _respond_one(rules: RuleSet, method: str, number: str) -> APIResponse:
    found = [one for one in rules if str(one.number) == number]
    if not found:
        raise StatusError(404, "NotFound", f"no rule has the number {number}: GET {PATH} shows those in effect")
    match method:
        case "GET":
            return _shown(found)
        case "DELETE":
            return _shown(rules.remove(found[0].number))
    raise _not_allowed()


def _add(rules: RuleSet, body: bytes) -> APIResponse:
    try:
        written = decode_faults(body)
    except ValueError as error:
        raise bad_request(str(error)) from None
    return _shown([rules.add(rule, written.seed) for rule in written.rules], 201)


def _not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", f"{PATH} takes GET, POST and DELETE")


def _shown(rules: Iterable[ActiveRule], status: int = 200) -> APIResponse:
    shown = [{"number": one.number, "rule": one.rule, "matched": one.matched, "met": one.met} for one in rules]
    return json_response(encoded({"faults": shown}), status)
