"""What the libraries declare: a function is a name with overloads, by the types of their arguments."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Overload(NamedTuple):
    """One way to call a function.

    Attributes:
        id: cel-go's name of the overload, by which costs are known.
        returns: The type of the value, such as `list(T)`; capital letters alone stand for any type.
        parameters: The types of the arguments, those of a member with the receiver first.
        call: Returns the value for arguments of these types; raises `EvaluationError` with cel-go's message.
        is_member: Whether the first argument is the receiver, before the dot.
    """

    id: str
    returns: str
    parameters: tuple[str, ...]
    call: Callable[..., Any]
    is_member: bool = True


Functions = Mapping[str, tuple[Overload, ...]]
