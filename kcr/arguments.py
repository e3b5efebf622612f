"""Arguments of authors, checked against the annotations when they are handed over, and once.

```python
@checked
def watch(kind: type[R], *, map_to: Callable[[R], Iterable[Key]] | None = None) -> Source: ...
```

`watch("Website")` raises `TypeError: watch: kind is 'Website': give it a kind, a class derived from kcr.Resource`: the
callable, the parameter and the value, and what it takes instead. A value of a wrong type is a TypeError, one out of
bounds (`msgspec.Meta`) a ValueError. Annotations are read at the first call. Type checkers see the function itself.

Values that reconciles make, such as keys and objects, are not checked when they are made: that would cost each of them.
"""

import inspect
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import timedelta
from difflib import get_close_matches
from functools import cache, wraps
from types import AsyncGeneratorType, BuiltinFunctionType, CoroutineType, FunctionType, GeneratorType, MethodType
from typing import (
    Any,
    NoReturn,
    TypeVar,
    cast,
)

from kcr.annotations import Check, Fault, check_of, hints_of, is_list, is_number, shown

# pytest shows the call, not these functions.
__tracebackhide__ = True
T = TypeVar("T")
# What users of other libraries give: the name, and what to use instead.
_HABITS = {
    "concurrency": ("workers",), "max_concurrent_reconciles": ("workers",), "predicate": ("watches", "=[kcr.watch(…)]"),
    "requeue": ("requeue_after", "=0, or raise kcr.RetryLater for the controller's backoff"),
    "scope": ("namespaced", "=False for a kind without namespaces"),
}  # fmt: skip
_NOT_RUN = (AsyncGeneratorType, BuiltinFunctionType, CoroutineType, FunctionType, GeneratorType, MethodType)
_SELVES = (["self"], ["cls"], ["_cls"])


def checked(target: T) -> T:
    """Check the arguments of a function, or of the constructor of a dataclass or named tuple, at each call."""
    if isinstance(target, type):
        name = "__new__" if issubclass(target, tuple) else "__init__"
        setattr(target, name, checked(getattr(target, name)))
        return target
    function: Any = target
    check: Callable[..., None] | None = None

    def call(*arguments: Any, **given: Any) -> Any:
        nonlocal check
        if check is None:
            check = check_of_call(function)
        check(arguments, given)
        return function(*arguments, **given)

    async def call_async(*arguments: Any, **given: Any) -> Any:
        check_of_call(function)(arguments, given)
        return await function(*arguments, **given)

    return cast("T", wraps(function)(call_async if inspect.iscoroutinefunction(function) else call))


def checked_on_failure(target: T) -> T:
    """Check the arguments of a function once it has failed: for what reconciles call, where each check would cost."""
    function: Any = target

    def call(*arguments: Any, **given: Any) -> Any:
        try:
            return function(*arguments, **given)
        except Exception as error:
            _check_after(function, arguments, given, error)
            raise

    async def call_async(*arguments: Any, **given: Any) -> Any:
        try:
            return await function(*arguments, **given)
        except Exception as error:
            _check_after(function, arguments, given, error)
            raise

    return cast("T", wraps(function)(call_async if inspect.iscoroutinefunction(function) else call))


def _check_after(function: Any, arguments: Sequence[Any], given: Mapping[str, Any], error: Exception) -> None:
    """Check the arguments of a call that has failed, and the fields of objects among them that cannot be encoded."""
    check_of_call(function)(arguments, given)
    for value in arguments if isinstance(error, AttributeError | TypeError) else ():
        if hasattr(type(value), "crd_options") and type(value).__name__ != "Secret":  # whose values stay unsaid
            check_fields(f"{called(function, arguments[0])}: {shown(value)}", value)


class CallCheck:
    """Checks the arguments of the calls of a function: those by place, and those by name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        hints, self._function = hints_of(function), function
        parameters = inspect.signature(function).parameters.values()
        self._checks = {one.name: check_of(hints.get(one.name, Any), one.name) for one in parameters}
        self._placed, self._rest = _by_place(parameters)
        self._has_self = self._placed[:1] in _SELVES
        self._is_closed = all(one.kind is not one.VAR_KEYWORD for one in parameters)
        self._faults = [self._checks[name].fault for name in self._placed]

    def __call__(self, arguments: Sequence[Any], given: Mapping[str, Any]) -> None:
        """Raise TypeError or ValueError for the first argument that does not fit."""
        for fault, value in zip(self._faults, arguments):  # noqa: B905  # `strict` costs, and there may be fewer
            if fault(value) is not None:
                self._check_named(arguments, [*zip(self._placed, arguments, strict=False), *given.items()])
        if self._rest or given:
            if self._is_closed and not given.keys() <= self._checks.keys():
                about = f"{self._called(arguments)}: no argument"
                refuse_unknown(about, given, [*self._checks][self._has_self :])
            rest = [(self._rest, value) for value in arguments[len(self._placed) :] if self._rest]
            self._check_named(arguments, [*rest, *given.items()])

    def _check_named(self, arguments: Sequence[Any], pairs: Sequence[tuple[str, Any]]) -> None:
        for name, value in pairs:
            if name in self._checks and (fault := self._checks[name].fault(value)) is not None:
                raise error_of(self._called(arguments), name, self._explained(name, fault, pairs))

    def _explained(self, name: str, fault: Fault, pairs: Sequence[tuple[str, Any]]) -> Fault:
        """Return a fault with the remedy of a slip: several values in a list, or two arguments in the wrong order."""
        value = fault.value
        if name == self._rest and isinstance(value, list | tuple | set):
            return fault._replace(remedy="give them one by one, without a list")
        others = ((other, its) for other, its in pairs if other in self._checks and other != name)
        swapped = next((other for other, its in others if self._are_swapped(name, value, other, its)), "")
        order = ", ".join(self._placed[self._has_self :])
        return fault._replace(remedy=f"swap it with {swapped}: the order is {order}") if swapped else fault

    def _are_swapped(self, name: str, value: Any, other: str, its: Any) -> bool:
        """Return whether two arguments fit each other's parameters, and the second not its own."""
        mine, others = self._checks[name].fault, self._checks[other].fault
        # What a parameter takes that takes anything says nothing.
        return (
            bool(self._checks[other].noun) and others(its) is not None and mine(its) is None and others(value) is None
        )

    def _called(self, arguments: Sequence[Any]) -> str:
        return called(self._function, arguments[0] if arguments else None)


check_of_call: Callable[[Callable[..., Any]], CallCheck] = cache(CallCheck)


def _by_place(parameters: Iterable[inspect.Parameter]) -> tuple[list[str], str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    rest = next((one.name for one in parameters if one.kind is one.VAR_POSITIONAL), "")
    return [one.name for one in parameters if one.kind in kinds], rest


def refuse_unknown(about: str, given: Iterable[str], known: Sequence[str], usual: Sequence[str] = ()) -> None:
    """Raise TypeError for a name that there is not, with the one that is meant.

    Args:
        about: Such as `watch: no argument`.
        given: The names.
        known: Those that there are.
        usual: Those to name where none is like it; empty for all.
    """
    for name in given:
        if name not in known:
            meant = _HABITS.get(name, ("",))
            near = get_close_matches(name, known, 1) or usual or known
            remedy = "".join(meant) if meant[0] in known else ", ".join(near)
            refuse(f"{about} is called {name!r}: use {remedy}")


def error_of(about: str, name: str, fault: Fault) -> Exception:
    """Return the error of a fault.

    Args:
        about: The callable, or the object that is made.
        name: The parameter or field.
        fault: The fault of its value.
    """
    error = fault.error(f"{about}: {name}{fault.path} is {shown(fault.value)}: {fault.remedy}")
    # What failed inside of kcr because of it says nothing to the author.
    error.__suppress_context__ = True
    return error


def refuse(text: str) -> NoReturn:
    """Raise TypeError for a value that an author's code has returned.

    Args:
        text: What returned it, the value, and what is to be returned instead.
    """
    raise TypeError(text) from None


def is_mistake(error: BaseException) -> bool:
    """Return whether this module has raised an exception: for the mistake of an author, not of kcr."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename == refuse.__code__.co_filename


async def awaited(result: Any, about: str) -> Any:
    """Await what an author's function has returned.

    Args:
        result: The awaitable.
        about: The function, for the error.

    Raises:
        TypeError: It is none.
    """
    if not inspect.isawaitable(result):
        refuse(f"{about} returned {shown(result)}: write it with `async def`")
    return await result


def ran(result: T, about: str) -> T:
    """Return what an author's function, `about`, has returned; raise TypeError if that has not run."""
    if isinstance(result, _NOT_RUN):
        refuse(f"{about} returned {shown(result)}, which has not run: return its result")
    return result


def list_in(result: Any, about: str, noun: str) -> Iterable[Any]:
    """Return the list that an author's function has returned.

    Args:
        result: The list.
        about: The function, for the error.
        noun: What is in the list.

    Raises:
        TypeError: It is none, but a string or a key.
    """
    if not is_list(type(result)):
        refuse(f"{about} returned {shown(result)}: return a list of {noun}")
    return cast("Iterable[Any]", result)


def check_fields(about: str, options: Any, names: Collection[str] = ()) -> None:
    """Check the fields of a struct of options.

    Args:
        about: The object that the options are for, such as `controller website`.
        options: The struct.
        names: The fields to check; none for all.

    Raises:
        TypeError: A field has a value of another type.
        ValueError: A value is out of its bounds.
    """
    kind: Any = type(options)
    for name, check in _fields_of(kind):
        fault = check.fault(getattr(options, name)) if not names or name in names else None
        if fault is not None:
            raise error_of(about, name, fault)


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, Check], ...]:
    return tuple((name, check_of(hint, name)) for name, hint in hints_of(kind).items() if not name.startswith("__"))


def called(function: Callable[..., Any], owner: Any = None) -> str:
    """Return the name of a callable in errors: `watch`, `Manager.store`, `Selection`.

    Args:
        function: The function.
        owner: The first argument: of a method the object, whose class may be derived from the method's.
    """
    name = function.__qualname__.rpartition("<locals>.")[2]
    of, _, method = name.rpartition(".")
    kind = owner if isinstance(owner, type) else type(owner)
    if any(base.__name__ == of for base in kind.__mro__):
        of = kind.__name__
    return of if method in ("__init__", "__new__") else f"{of}.{method}".lstrip(".")


def seconds_of(time: timedelta | float | None, name: str) -> float | None:
    """Return a time as seconds.

    Args:
        time: A `timedelta`, a number of seconds, or None.
        name: Names the argument in the error.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(time, timedelta):
        return time.total_seconds()
    if time is None or is_number(time):
        return time if time is None else float(time)
    raise TypeError(f"{name} is {shown(time)}: give it a timedelta, a number of seconds or None")
