"""Admission and conversion webhooks.

The API server sends an AdmissionReview for each create, update, delete or connect that a configuration selects, and
waits for the answer. `review` decodes and encodes these, `registration` has the options and the rules of a webhook,
`handlers` calls the methods of its author, `patches` makes their changes to JSON patches, and `webhooks` is the one
entry for all requests, which never leaves one without an answer. `converters` has the functions between the versions of
a kind, and `conversion` answers ConversionReviews with them.

Two promises. An object is never damaged: the patch of a defaulter has the differences that it made, and fields that its
type does not know survive. A dry run has no side effects: writes of the manager's client are dry runs meanwhile.
"""

from kcr.serving.webhooks.registration import WebhookOptions, WebhookRule
from kcr.serving.webhooks.review import AdmissionResponse, GroupVersionKind, Operation, UserInfo, WebhookRequest
from kcr.serving.webhooks.webhooks import Webhooks

__all__ = [
    "AdmissionResponse",
    "GroupVersionKind",
    "Operation",
    "UserInfo",
    "WebhookOptions",
    "WebhookRequest",
    "WebhookRule",
    "Webhooks",
]
