"""Authorization: decides whether a user may send a request, before the request is handled."""

from kcr_devcluster.apiserver.authorization.attributes import Attributes, forbidden, request_attributes
from kcr_devcluster.apiserver.authorization.rbac import AlwaysAllow, Authorizer, Decision, Rbac

__all__ = ["AlwaysAllow", "Attributes", "Authorizer", "Decision", "Rbac", "forbidden", "request_attributes"]
