"""Annotations: whether a value fits one, and in words what fits.

`check_of` makes a `Check` of an annotation once; its `fault` says of a value why it does not fit. Functions are judged
by their signatures and, as far as they are annotated, by their results; objects for protocols by their methods.
Bounds are those of `msgspec.Meta`, or of `Bounds`.
"""

import inspect
import re
import sys
import typing
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime, timedelta
from functools import cache, partial
from types import BuiltinFunctionType, CoroutineType, FunctionType, MethodType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)


class Bounds(NamedTuple):
    """Bounds of a number, as `msgspec.Meta` has them; the test kit does without msgspec."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    pattern: str | None = None
    description: str = ""


_NAME = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_VALUE = r"[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?"
_LABEL = rf"([a-z0-9.-]+/)?{_VALUE}"
_TERMS = (
    rf"!? *{_LABEL}|{_LABEL} *(==?|!=) *({_VALUE})?|{_LABEL} *[<>] *\d+|"
    rf"{_LABEL} +(not)?in *\( *({_VALUE})?( *, *({_VALUE})?)* *\)"
)
NotNegative = Annotated[float, Bounds(ge=0)]
Positive = Annotated[float, Bounds(gt=0)]
Count = Annotated[int, Bounds(ge=0)]
Text = Annotated[str, Bounds(pattern=r"\A\S(.*\S)?\Z", description="one line of text")]
Name = Annotated[str, Bounds(pattern=rf"\A{_NAME}\Z", description="a name in lower case, such as websites")]
NamespaceName = Annotated[str, Bounds(pattern=rf"\A({_NAME})?\Z", description="a namespace")]
NamespaceNames = Annotated[
    str, Bounds(pattern=rf"\A( *{_NAME} *(,|\Z))*\Z", description="a string of namespaces (a,b)")
]
Selector = Annotated[
    str, Bounds(pattern=rf"\A( *({_TERMS}) *(,(?=.)|\Z))*\Z", description="a label selector, such as app=web")
]
FieldSelector = Annotated[
    str,
    Bounds(
        pattern=r"\A([^,=!]+(==?|!=)([^,=\\]|\\.)*(,(?=.)|\Z))*\Z",
        description="a field selector, such as status.phase=Running",
    ),
]
BOUNDS = (("ge", ">=", "at least"), ("gt", ">", "above"), ("le", "<=", "at most"), ("lt", "<", "below"))
_HOLDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "ge": lambda value, bound: value >= bound, "gt": lambda value, bound: value > bound,
    "le": lambda value, bound: value <= bound, "lt": lambda value, bound: value < bound,
    "pattern": lambda value, bound: re.search(bound, value) is not None,
}  # fmt: skip
_NOUNS: Mapping[Any, str] = {
    NoneType: "None", bool: "True or False", bytes: "bytes", datetime: "a datetime with a time zone",
    float: "a number", int: "a whole number", str: "a string", timedelta: "a timedelta",
}  # fmt: skip
_WORDS: Mapping[str, str] = {
    "AsyncIterable": "an asynchronous iterator", "Channel": "a kcr.channel(…)", "ConditionFields": "a kcr.Condition(…)",
    "Model": "a model of kubernetes-asyncio or kubernetes (for a mapping: create_manifest, merge_patch)",
    "Key": "a kcr.Key(namespace, name)", "Leadership": "a LeaderElector(client, config, …)",
    "Resource": "an object, such as a ConfigMap", "Right": "a kcr.rights(…)",
    "ShardedReplica": "a LeaderElector(client, config, …)", "Source": "a kcr.watch(…) or kcr.owned(…)",
}  # fmt: skip
_PLURALS = {"class": "classes"}
_MOST_SHOWN = 100
_SECONDS = re.compile("seconds|timeout|duration|deadline|period|after|delay")
_MANY = (tuple, list, set, frozenset, Sequence, Collection, Iterable, Iterator, typing.AbstractSet)
_FUNCTIONS = (FunctionType, MethodType)


class Fault(NamedTuple):
    """Why a value does not fit its annotation.

    Attributes:
        value: The value, or the item of it that does not fit.
        remedy: What is to be given instead.
        path: The place of the item in the value, such as `[0]`; empty for the value.
        error: The class of the exception.
    """

    value: object
    remedy: str
    path: str = ""
    error: type[Exception] = TypeError


class Check(NamedTuple):
    """The check of an annotation: what fits it, in words, and a function that finds the fault of a value."""

    noun: str
    fault: Callable[[Any], Fault | None]


_ANYTHING = Check("", lambda value: None)


def hints_of(target: Any) -> dict[str, Any]:
    """Return the annotations of a function or class; those whose names only type checkers import are left out."""
    try:
        return get_type_hints(target, include_extras=True)
    except NameError:
        return {name: hint for name, hint in target.__annotations__.items() if not isinstance(hint, str)}


def shown(value: object) -> str:
    """Return a value as errors show it."""
    match value:
        case type():
            return f"the class {value.__name__}"
        case FunctionType() | MethodType() | BuiltinFunctionType():
            return f"the function {value.__name__}"
        case CoroutineType():
            value.close()  # else Python warns that it was never awaited
            return f"the coroutine {value.__qualname__}"
    kind, about = type(value), getattr(value, "key", None)
    if kind.__repr__ is object.__repr__:
        return _with_article(kind.__name__)
    if hasattr(kind, "crd_options") and about is not None:
        return f"the {kind.__name__} {about}".strip()
    text = " ".join(without_address(repr(value)).split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def without_address(text: str) -> str:
    """Return a text without the address of an object in it."""
    return re.sub(" at 0x[0-9a-f]+", "", text)


def is_number(value: object) -> bool:
    """Return whether a value is a number to calculate with; truths, NaN and what comes near infinity are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100


def check_of(hint: Any, name: str = "") -> Check:
    """Return the check of an annotation.

    Args:
        hint: The annotation.
        name: The parameter: a number that is called `…_seconds` is shown as a number of seconds.
    """
    origin, items = get_origin(hint), get_args(hint)
    if isinstance(hint, TypeVar):
        hint = hint.__bound__ or (Union[hint.__constraints__] if hint.__constraints__ else Any)  # noqa: UP007  # of a tuple
        return check_of(hint, name)
    if origin is Annotated:
        return _bounded(check_of(items[0], name), hint.__metadata__)
    if origin in (Union, UnionType):
        return _any_of([check_of(one, name) for one in items])
    if origin is Literal:
        return _one_of(items)
    if origin is type:
        return _class_check(items[0])
    if origin is Callable:
        return check_of_function(*(items or (..., Any)))
    return _plain_check(hint, origin, items, name)


def _plain_check(hint: Any, origin: Any, items: tuple[Any, ...], name: str) -> Check:
    if origin in _MANY and items and len(items) - (items[-1] is ...) == 1:
        return _many(origin, check_of(items[0]))
    if origin is tuple and items:
        return _few([check_of(one) for one in items])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(*map(check_of, items))
    kind = origin or hint
    if kind is float and _SECONDS.search(name):
        return _instance(kind, "a number of seconds")
    if not isinstance(kind, type) or kind in (object, Any):
        return _ANYTHING
    return check_of_methods(kind) if getattr(kind, "_is_protocol", False) else _instance(kind)


def _with_article(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOUaeio" else f"a {name}"


def noun_of(kind: type) -> str:
    """Return what a value of a class is called in errors: `a string`, `a kcr.Manager`."""
    if kind in _NOUNS:
        return _NOUNS[kind]
    public: Collection[str] = getattr(sys.modules.get("kcr"), "__all__", ())
    match kind.__name__:
        case name if name in _WORDS:
            return _WORDS[name]
        case name:
            if name in public:
                return f"a kcr.{name}"
            home = ".".join(kind.__module__.split(".")[:2])
            is_exported = home.startswith("kcr.") and name in getattr(sys.modules.get(home), "__all__", ())
            return f"a {home}.{name}" if is_exported else _with_article(name)


def _instance(kind: type, noun: str = "") -> Check:
    noun = noun or noun_of(kind)
    fits: Callable[[Any], bool]
    match kind:
        case _ if kind is float:
            fits = is_number
        case _ if kind is int:
            fits = lambda value: isinstance(value, int) and not isinstance(value, bool)  # noqa: E731
        case _ if kind is datetime:
            fits = lambda value: isinstance(value, datetime) and value.tzinfo is not None  # noqa: E731
        case _:
            fits = lambda value: isinstance(value, kind)  # noqa: E731

    def fault(value: Any) -> Fault | None:
        if fits(value):
            return None
        if isinstance(value, type) and issubclass(value, kind):
            return Fault(value, f"give it an object, {value.__name__}(…)")
        if isinstance(value, timedelta) and kind in (int, float):
            return Fault(value, f"give it a number of seconds, {value.total_seconds():g}")
        return Fault(value, f"give it {noun}")

    return Check(noun, fault)


def _class_check(bound: Any) -> Check:
    if isinstance(bound, TypeVar):
        bound = bound.__bound__
    if get_origin(bound) in (Union, UnionType) or not isinstance(bound, type):
        return Check("a class", lambda value: None if isinstance(value, type) else Fault(value, "give it a class"))
    is_kind = any("resource" in getattr(base, "__annotations__", ()) for base in bound.__mro__)
    noun = f"a class derived from {noun_of(bound).partition(' ')[2]}"
    if bound.__name__ == "Resource":
        noun = "a kind, a class derived from kcr.Resource"

    def fault(value: Any) -> Fault | None:
        if not (isinstance(value, type) and issubclass(value, bound)):
            return Fault(
                value, f"give it its class, {type(value).__name__}" if isinstance(value, bound) else f"give it {noun}"
            )
        if is_kind and not hasattr(value, "resource"):
            return Fault(value, "it is not a kind: give the class api_version= and plural=")
        remedy = type(value).fault(value) if is_kind else ""  # type: ignore[attr-defined]  # that of its metaclass
        return Fault(value, remedy) if remedy else None

    return Check(noun, fault)


def _one_of(choices: tuple[Any, ...]) -> Check:
    noun = f"{'one of ' if len(choices) > 2 else ''}{_listed([repr(one) for one in choices])}"
    # The types as well: 1 equals True.
    known = {(type(one), one) for one in choices}

    def fault(value: Any) -> Fault | None:
        fits = isinstance(value, str | int) and (type(value), value) in known
        error = ValueError if type(value) in {type(one) for one in choices} else TypeError
        return None if fits else Fault(value, f"give it {noun}", error=error)

    return Check(noun, fault)


def _listed(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _any_of(checks: Sequence[Check]) -> Check:
    if any(not one.noun for one in checks):
        return _ANYTHING
    nouns = [word for one in checks for word in (("True", "False") if one.noun == _NOUNS[bool] else (one.noun,))]
    nouns = list(dict.fromkeys(nouns))
    if _NOUNS[timedelta] in nouns:
        nouns = ["a number of seconds" if one == _NOUNS[float] else one for one in nouns]
    noun = _listed(nouns)

    def fault(value: Any) -> Fault | None:
        found = []
        for one in checks:
            if (fault := one.fault(value)) is None:
                return None
            found.append((fault, one.noun))
        # The fault of an item, or a remedy of its own, says more than the list of what would fit.
        plain = f"give it {_NOUNS[str]}"
        special = next((one for one, own in found if one.path or one.remedy not in (f"give it {own}", plain)), None)
        error = ValueError if any(one.error is ValueError for one, _ in found) else TypeError
        return special or Fault(value, f"give it {noun}", error=error)

    return Check(noun, fault)


def _bounded(check: Check, metadata: tuple[Any, ...]) -> Check:
    metas = [one for one in metadata if type(one).__name__ in ("Bounds", "Meta")]
    bounds = [(name, getattr(one, name)) for one in metas for name in _HOLDS if getattr(one, name) is not None]
    if not bounds:
        return check
    described = next((one.description for one in metas if one.description), "")
    noun = described or f"{check.noun} {words_of(bounds)}".strip()

    def fault(value: Any) -> Fault | None:
        found = check.fault(value)
        if found is not None or value is None:
            return found
        if all(_HOLDS[name](value, bound) for name, bound in bounds):
            return None
        return Fault(value, f"give it {noun}", error=ValueError)

    return Check(noun, fault)


def words_of(bounds: Sequence[tuple[str, Any]]) -> str:
    """Return bounds in words, such as `of at least 1`, `from 1 to 30`; empty for those of texts."""
    words = {name: word for name, _, word in BOUNDS}
    told = [(name, bound) for name, bound in bounds if name in words]
    if [name for name, _ in told] == ["ge", "le"]:
        return f"from {told[0][1]} to {told[1][1]}"
    said = " and ".join(f"{words[name]} {bound}" for name, bound in told)
    return f"of {said}" if said.startswith("at") else said


def _many(origin: Any, item: Check) -> Check:
    noun = f"a {'set' if origin in (set, frozenset) else 'list'} of {_plural(item.noun)}"
    accepted = (tuple, list) if origin in (tuple, list) else (set, frozenset) if origin in (set, frozenset) else origin

    def fault(value: Any) -> Fault | None:
        is_one = isinstance(value, str | bytes | Mapping) or hasattr(value, "_fields")
        is_nested = accepted == (set, frozenset) and isinstance(value, tuple | list | set) and value
        if is_nested and all(fault(one) is None for one in value):
            return Fault(value, "join them with |")
        if is_one or not isinstance(value, accepted):
            fits = item.noun and item.fault(value) is None
            one = {tuple: "a tuple, (…,)", set: "a set, {…}", frozenset: "a set, {…}"}.get(origin, "a list, […]")
            return Fault(value, f"put it into {one}" if fits else f"give it {noun}")
        if isinstance(value, Collection) and item is not _ANYTHING:
            for number, one in enumerate(value):
                if (found := item.fault(one)) is not None:
                    return found._replace(path=f"[{number}]{found.path}")
        return None

    return Check(noun, fault)


def _few(items: Sequence[Check]) -> Check:
    noun = f"a tuple ({', '.join(one.noun for one in items)})"

    def fault(value: Any) -> Fault | None:
        if not isinstance(value, tuple) or len(value) != len(items):
            return Fault(value, f"give it {noun}")
        faults = [(number, items[number].fault(one)) for number, one in enumerate(value)]
        found = [one._replace(path=f"[{number}]{one.path}") for number, one in faults if one is not None]
        return found[0] if found else None

    return Check(noun, fault)


def _plural(noun: str) -> str:
    words = re.sub(r"\ban? (whole number|\w+)(?!\w|\.)", lambda found: _PLURALS.get(found[1], f"{found[1]}s"), noun)
    return re.sub(r"\ban? (?=kcr\.)", "", words) or "values"


def _mapping(key: Check = _ANYTHING, item: Check = _ANYTHING) -> Check:
    def fault(value: Any) -> Fault | None:
        if not isinstance(value, Mapping):
            return Fault(value, "give it a mapping")
        for name, one in value.items():
            found = key.fault(name)
            if found is not None:
                return found._replace(path=f" has a key that {found.path}")
            found = item.fault(one)
            if found is not None:
                return found._replace(path=f"[{name!r}]{found.path}")
        return None

    return Check("a mapping", fault)


def check_of_function(arguments: Any, result: Any) -> Check:
    """Return the check of `Callable[arguments, result]`."""
    is_fixed = isinstance(arguments, list) and not any(getattr(one, "__origin__", None) is Unpack for one in arguments)
    count = len(arguments) if is_fixed else None
    counted = {None: "", 0: " without arguments", 1: " of one argument", 2: " of two arguments"}.get(
        count, f" of {count} arguments"
    )
    noun = f"a function{counted}"

    def fault(value: Any) -> Fault | None:
        if isinstance(value, CoroutineType):
            return Fault(value, f"give it {noun}, not its result")
        if not callable(value) or (isinstance(value, type) and not _makes(value, result)):
            return Fault(value, f"give it {noun}")
        if count is not None and is_misfit(value, count):
            return Fault(value, f"give it {noun}")
        remedy = _wrong_kind(value, result) or misdeclared(value, arguments if is_fixed else (), result)
        return Fault(value, remedy) if remedy else None

    return Check(noun, fault)


def _makes(kind: type, result: Any) -> bool:
    """Return whether the objects of a class are such results of a function."""
    origin = get_origin(result) or result
    return not isinstance(origin, type) or origin == Any or issubclass(kind, origin)


def is_misfit(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function cannot be called with so many arguments by place."""
    inner = getattr(function, "__func__", function)
    if isinstance(inner, FunctionType) and not vars(inner):
        code, given = inner.__code__, count + (inner is not function)
        most = given if code.co_flags & inspect.CO_VARARGS else code.co_argcount
        least = code.co_argcount - len(inner.__defaults__ or ())
        return not least <= given <= most or code.co_kwonlyargcount > len(inner.__kwdefaults__ or ())
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return True
    except ValueError:  # a function in C may not tell
        return False
    return False


def _inner(function: Any) -> Any:
    """Return the function inside partials and objects that are called."""
    while isinstance(function, partial):
        function = function.func
    is_function = isinstance(function, (*_FUNCTIONS, BuiltinFunctionType, type)) or hasattr(function, "__wrapped__")
    return function if is_function else function.__call__


def results_of(function: Callable[..., Any]) -> tuple[type, ...]:
    """Return the classes of a function's results, awaited ones too, as it is annotated; empty if that is unknown."""
    return tuple(one for one in _classes_in(_declared(function).get("return", Any)) if one is not object)


def _declared(function: Any) -> dict[str, Any]:
    """Return an author's annotations of a function; none if it is decorated: it may take and return something else."""
    function = _inner(function)
    is_known = str(getattr(function, "__module__", "")).startswith(("kcr.", "kcr_devcluster."))
    try:
        return {} if is_known or hasattr(function, "__wrapped__") else hints_of(function)
    except Exception:  # an author's annotations may be anything
        return {}


def _classes_in(hint: Any) -> Iterator[type]:
    """Yield the classes of values that fit an annotation; `object` for what cannot be known."""
    origin, items = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        for one in items:
            yield from _classes_in(one)
    elif origin in (Awaitable, Coroutine):
        yield from _classes_in(items[-1])
    elif isinstance(hint, TypeVar):
        yield from _classes_in(hint.__bound__)
    else:
        kind = origin or hint
        is_known = isinstance(kind, type) and kind is not Any and not getattr(kind, "_is_protocol", False)
        yield kind if is_known else object


def misdeclared(function: Any, arguments: Sequence[Any], result: Any) -> str:
    """Return the remedy for a function whose annotations say that it takes or returns other classes; empty for none."""
    hints = _declared(function)
    try:
        names = [*inspect.signature(function).parameters] if hints else []
    except ValueError:  # see `is_misfit`
        names = []
    for name, wanted in zip(names, arguments, strict=False):
        if _is_unlike(given := hints.get(name, Any), wanted):
            return f"it takes {check_of(given).noun}: let it take {check_of(wanted).noun}"
    if get_origin(result) in (Awaitable, Coroutine):
        result = get_args(result)[-1]
    given, wanted, is_list_of = hints.get("return", Any), result, get_origin(result) in _MANY
    if is_list_of:
        given, wanted = (next(iter(get_args(one)), Any) for one in (given, result))
    if _is_unlike(given, wanted) or (is_list_of and not all(map(is_list, results_of(function)))):
        return f"it returns {check_of(hints['return']).noun}: let it return {check_of(result).noun}"
    return ""


def _is_unlike(given: Any, wanted: Any) -> bool:
    pairs = [(one, other) for one in _classes_in(given) for other in _classes_in(wanted)]
    return not any(issubclass(one, other) or issubclass(other, one) or other is float for one, other in pairs)


def _yields(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def is_plain(function: Any) -> bool:
    """Return whether a function is written with `def`, and no annotation says that it returns an awaitable."""
    function = inspect.unwrap(_inner(function))
    if not isinstance(function, _FUNCTIONS) or function.__name__ == "<lambda>":
        return False
    hint = _declared(function).get("return")
    return _yields(function) or not (
        inspect.iscoroutinefunction(function) or hint is Any or get_origin(hint) in (Awaitable, Coroutine)
    )


def _wrong_kind(function: Any, result: Any) -> str:
    function = _inner(function)
    if isinstance(result, TypeVar):
        result = result.__bound__ or Any
    hints = {get_origin(one) or one for one in (result, *get_args(result))}
    if inspect.isasyncgenfunction(function) or (_yields(function) and not hints & {*_MANY}):
        return "write it without yield"
    if inspect.iscoroutinefunction(inspect.unwrap(function)) and not hints & {Any, Awaitable, Coroutine}:
        return "write `def` instead of `async def`: it is not awaited"
    if get_origin(result) in (Awaitable, Coroutine) and is_plain(function) and results_of(function):
        return "write `async def` instead of `def`"
    return ""


def is_list(kind: type) -> bool:
    """Return whether the values of a class are several things, and not one: a string is one, and so is a key."""
    return issubclass(kind, Iterable) and not issubclass(kind, str | bytes) and not hasattr(kind, "_fields")


@cache
def check_of_methods(kind: type) -> Check:
    """Return the check of an object with the methods of a protocol."""
    members = {
        name: member
        for base in reversed(kind.__mro__)
        if base is kind or getattr(base, "_is_protocol", False)
        for name, member in vars(base).items()
        if isinstance(member, FunctionType) and not name.startswith("_")
    }
    fields = [name for base in kind.__mro__ for name, one in vars(base).items() if isinstance(one, property)]
    shapes = {name: definition(member) for name, member in members.items()}
    annotated = {name: [*_types_of(member)] for name, member in members.items()}
    listed = ", ".join(f"`{one}`" for one in shapes.values()) or ", ".join(fields)
    what = "the methods" if len(shapes) > 1 else "a method" if shapes else "the fields"
    noun = _WORDS.get(kind.__name__, f"an object with {what} {listed}")

    def fault(value: Any) -> Fault | None:
        if isinstance(value, type):
            has_all = all(hasattr(value, name) for name in members)
            return Fault(value, f"give it an object, {value.__name__}(…)" if has_all else f"give it {noun}")
        if not all(hasattr(value, name) for name in fields):
            return Fault(value, f"give it {noun}")
        for name, member in members.items():
            method = getattr(value, name, None)
            if not callable(method):
                return Fault(value, f"give it {noun}")
            if is_misfit(method, shapes[name].count(",")) or (inspect.iscoroutinefunction(member) and is_plain(method)):
                without = ", without yield" if _yields(method) else ""
                return Fault(value, f"define its {name} as `{shapes[name]}`{without}")
            *wanted, result = annotated[name]
            if remedy := _wrong_kind(method, result) or misdeclared(method, wanted, result):
                return Fault(value, f"{name}: {remedy}")
        return None

    return Check(noun, fault)


def _types_of(method: Any) -> Iterator[Any]:
    hints = hints_of(method)
    for name in [*inspect.signature(method).parameters][1:]:
        yield hints.get(name, Any)
    result = hints.get("return", Any)
    yield Awaitable[result] if inspect.iscoroutinefunction(method) else result  # type: ignore[valid-type]


def definition(function: Callable[..., Any]) -> str:
    """Return how a method is defined: `async def reconcile(self, key)`."""
    names = ", ".join(inspect.signature(function).parameters)
    return f"{'async ' if inspect.iscoroutinefunction(function) else ''}def {function.__name__}({names})"
