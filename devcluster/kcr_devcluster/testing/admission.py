"""One webhook alone: called in process, without a server.

```python
async def test_latest_is_denied():
    result = await admit(WebsiteWebhook(), Website(spec=WebsiteSpec(image="nginx:latest")))
    assert not result.allowed
    assert result.causes[0].field == "spec.image"
```
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from kcr.annotations import shown as text_of
from kcr.api import codec
from kcr.api.meta import Resource, Status
from kcr.arguments import checked, refuse
from kcr.client.context import writing
from kcr.errors import ApiError, Cause
from kcr.serving.webhooks import GroupVersionKind, Operation, UserInfo, WebhookOptions, WebhookRequest, WebhookRule
from kcr.serving.webhooks.handlers import AdmissionEndpoint, denied
from kcr.serving.webhooks.registration import handlers_of
from kcr.serving.webhooks.review import decode_object, has_value

if TYPE_CHECKING:  # `handlers_of` checks webhooks
    from kcr.serving.webhooks.registration import Webhook

R = TypeVar("R", bound=Resource)

_NULL = msgspec.Raw(b"null")


class AdmissionResult(NamedTuple, Generic[R]):
    """The result of a webhook.

    Attributes:
        allowed: Whether the request is admitted.
        object: The object with the changes of `default`; None on DELETE.
        code: The HTTP status code that the user gets, such as 422; 200 if the request is admitted.
        message: Why the request is denied; the API server names the webhook in front of it.
        causes: The refused fields.
        warnings: The warnings for the user.
    """

    allowed: bool
    object: R | None = None
    code: int = 200
    message: str = ""
    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()


@checked
async def admit(  # noqa: PLR0913  # the fields of a request, all by name
    webhook: "Webhook | Sequence[Webhook]",
    obj: R | None = None,
    *,
    old: R | None = None,
    operation: Operation | None = None,
    user: str | UserInfo = "admin",
    dry_run: bool = False,
    subresource: str = "",
    name: str = "",
    namespace: str = "",
    options: Mapping[str, Any] | None = None,
) -> AdmissionResult[R]:
    """Call one webhook with a request, as the API server does: first `default`, then the validator of the operation.

    It needs no server and no manager. An unexpected exception of the webhook is raised.

    Args:
        webhook: The object that `Manager.add_webhook` takes, or a sequence of them.
        obj: The new object; None on DELETE. For `scale` a `Scale`, for `exec` the options.
        old: The old object; None on CREATE and CONNECT.
        operation: None for the one that follows from the objects: DELETE without a new one, CREATE without an old one,
            UPDATE with both.
        user: Who sends the request.
        dry_run: Whether it is a dry run.
        subresource: The subresource; empty for the object itself.
        name: The name in the request; empty for that of the object.
        namespace: Its namespace; empty for that of the object.
        options: The options of the request, as JSON.

    Raises:
        ValueError: There is neither a new nor an old object.
    """
    shown = obj if obj is not None else old
    if shown is None:
        raise ValueError("admit: there is no object: give it obj, old, or both")
    if obj is not None and old is not None and type(old) is not type(obj):
        refuse(f"admit: old is {text_of(old)}, and obj {text_of(obj)}: give it two versions of one object")
    kind, resource = type(shown), type(shown).resource
    made = "DELETE" if obj is None else "CREATE" if old is None else "UPDATE"
    request = WebhookRequest(
        uid="admit",
        operation=operation or made,  # type: ignore[arg-type]  # one of three
        user=UserInfo(name=user) if isinstance(user, str) else user,
        dry_run=dry_run,
        name=name or shown.metadata.name,
        namespace=namespace or shown.metadata.namespace,
        kind=GroupVersionKind(group=resource.group, version=resource.version, kind=resource.kind),
        subresource=subresource,
        raw_object=_NULL if obj is None else msgspec.Raw(codec.encode(obj)),
        raw_old_object=_NULL if old is None else msgspec.Raw(codec.encode(old)),
        raw_options=msgspec.Raw(codec.encode(options or {})),
    )
    return await _admit(request, kind, webhook)


async def _admit(request: WebhookRequest, kind: type[R], webhook: object) -> AdmissionResult[R]:
    handlers = handlers_of("admit", webhook, kind)
    rules = [
        WebhookRule(kind.resource, kind, is_mutating, "", "", (request.operation,), handlers, WebhookOptions())
        for is_mutating in (True, False)
    ]
    mutating, validating = map(AdmissionEndpoint, rules)
    try:
        with writing(dry_run=bool(request.dry_run)):
            request = (await mutating.default(request)).request
            response = await validating.review(request)
    except ApiError as error:
        response = denied(request, [error])
    obj = decode_object(kind, request.raw_object) if has_value(request.raw_object) else None
    status = response.status or Status(code=200)
    causes = status.details.causes if status.details is not None else None
    return AdmissionResult(
        response.allowed, obj, status.code, status.message,
        tuple(Cause(one.field, one.reason, one.message) for one in causes or ()), response.warnings,
    )  # fmt: skip
