"""Objects on their way in: each is brought into the shape of its kind, or refused.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json.
"""

from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.responses import RefusedError
from kcr.apiserver.schema.shape import Shape


class UndecodableError(RefusedError):
    """The body is JSON and no object of its kind: 400.

    Attributes:
        text: The decoder's words, which the answer to a patch puts into another message.
    """

    def __init__(self, kind: str, version: str, text: str) -> None:
        super().__init__(400, "BadRequest", f'{kind} in version "{version}" cannot be handled as a {kind}: {text}')
        self.text = text


def receive(shape: Shape, obj: Manifest) -> None:
    """Bring an object into the shape of its kind, in place.

    Raises:
        UndecodableError: It is no object of the kind.
    """
    try:
        shape.conform(obj)
    except ValueError as error:
        raise UndecodableError(shape.short_name, shape.name.partition(".")[0], str(error)) from None
