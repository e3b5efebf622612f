"""TokenRequests: the API server issues tokens of service accounts."""

from kcr.api.meta import Object


class TokenRequestStatus(Object):
    """The token that was issued; it is a secret."""

    token: str

    def __repr__(self) -> str:
        """Show no secret."""
        return "TokenRequestStatus()"


class TokenRequest(Object):
    """The response of a POST on `serviceaccounts/token`."""

    status: TokenRequestStatus
