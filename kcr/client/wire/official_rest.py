"""The `ApiClient` of `kubernetes.aio`, the official client, without its own connections (ST-32)."""

from typing import Any

from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import ApiException

from kcr.client.wire.transport import JSON_PATCH, STRATEGIC_PATCH
from kcr.errors import KcrError


class OfficialApiClient(ApiClient):
    """A part of `TypedApiClient`."""

    def __init__(self, rest_client: Any, headers: dict[str, str]) -> None:
        self.configuration: Configuration = Configuration(host="")
        self.client_side_validation: bool = self.configuration.client_side_validation
        self.rest_client: Any = rest_client.refusing(_refusal)
        self.default_headers = headers
        self.cookie: None = None

    async def call_api(
        self, method: str, url: str, header_params: Any = None, body: Any = None, *args: Any, **options: Any
    ) -> Any:
        """Send one request; see the library's `ApiClient.call_api`."""
        headers = {**(header_params or {})}
        if headers.get("Content-Type") == JSON_PATCH and not isinstance(body, list):
            # As the library's RESTClientObject does.
            headers["Content-Type"] = STRATEGIC_PATCH
        if "watch=true" in url.lower():
            # The library's `DynamicClient` reads a watch as it arrives, and does not say so.
            options.setdefault("_preload_content", False)
        return await self.rest_client.request(method, url, None, headers, body, *args, **options)


def _refusal(error: KcrError, answer: Any) -> ApiException:
    if answer is not None:
        try:
            ApiException.from_response(http_resp=answer, body=None, data=None)
        except ApiException as refusal:
            return refusal
    return ApiException(0, str(error))
