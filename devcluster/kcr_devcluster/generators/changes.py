"""What changes between two CustomResourceDefinitions of one kind, and whether objects or clients of the old one break.

A change is breaking where an object that the old definition accepted is refused, changed or not found under the new
one, or where a request that succeeded fails. kube-apiserver accepts most of such definitions without a word.

Objects that are stored are not validated again before they are written, and then a value that has not changed is
tolerated ("ratcheting", since 1.33 in all clusters). So a narrowed field breaks the creation of the same object, and a
write that changes the value, or anything else in the same list or rule.

Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go, ValidateCustomResourceDefinitionUpdate;
apiextensions-apiserver/pkg/apiserver/validation/ratcheting.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kcr_devcluster.generators.review import losses

Json = Mapping[str, Any]

# A bound of a value, and whether a higher number accepts more.
_BOUNDS = {
    "maximum": True, "maxLength": True, "maxItems": True, "maxProperties": True,
    "minimum": False, "minLength": False, "minItems": False, "minProperties": False,
}  # fmt: skip
_FLAGS = {"exclusiveMinimum": "the bound itself", "exclusiveMaximum": "the bound itself", "uniqueItems": "duplicates"}
_TEXTS = ("pattern", "format", "multipleOf")
_COMPOSITES = ("allOf", "anyOf", "oneOf", "not")
_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
_RULES = "x-kubernetes-validations"
_LISTS = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
_KEEP_AND_ADD = "keep it, and add another version with the new field"
_MIGRATE = "rewrite the objects first: kcr crd migrate"


class Change(NamedTuple):
    """One change.

    Attributes:
        version: The version; empty for the definition as a whole.
        path: The field, such as `spec.hosts[].port`, or the part of the definition.
        what: What happens, and to whom.
        remedy: What helps; empty for a change that breaks nothing.
    """

    version: str
    path: str
    what: str
    remedy: str = ""

    @property
    def is_breaking(self) -> bool:
        """Whether objects or clients of the old definition break."""
        return bool(self.remedy)


def changes(old: Json, new: Json) -> Iterator[Change]:
    """Yield the changes between two CustomResourceDefinitions.

    Args:
        old: The definition as it is.
        new: The definition of the same name as it shall be.
    """
    before, after = old["spec"], new["spec"]
    yield from _identity(before, after)
    olds, news = ({one["name"]: one for one in spec["versions"]} for spec in (before, after))
    yield from _conversion(old, new)
    stored = set((old.get("status") or {}).get("storedVersions") or ())
    stored |= {name for name, one in olds.items() if one["storage"]}
    for name, one in olds.items():
        if name in news:
            yield from _version(one, news[name])
        elif name in stored:
            what = "removed, though objects are stored in it: the API server refuses the definition"
            yield Change(name, "versions", what, f"make another version the storage version, and {_MIGRATE}")
        elif one["served"]:
            yield Change(name, "versions", "removed: requests of its clients are 404", "serve it, marked as deprecated")
    for name in news.keys() - olds.keys():
        yield Change(name, "versions", "added")


def _identity(old: Json, new: Json) -> Iterator[Change]:
    places = (("scope", old["scope"], new["scope"]), ("names.kind", old["names"]["kind"], new["names"]["kind"]))
    for path, before, after in places:
        if before != after:
            what = f"{before} becomes {after}: the API server refuses it while objects are served"
            yield Change("", path, what, "make a definition of another name")
    for field in ("shortNames", "categories"):
        for gone in [one for one in old["names"].get(field) or () if one not in (new["names"].get(field) or ())]:
            yield Change("", f"names.{field}", f"{gone} removed: kubectl does not know it any more", "keep it")


def _conversion(old: Json, new: Json) -> Iterator[Change]:
    known = {(one.version, one.other, field) for one in losses(old) for field in one.fields}
    for one in losses(new):
        for field in one.fields:
            if (one.version, one.other, field) not in known:
                what = f"lost when an object is read or written as {one.other}, which lacks it"
                yield Change(one.version, field, what, f"add it to {one.other}, or convert with a webhook")
    before, after = ((one["spec"].get("conversion") or {}).get("strategy") or "None" for one in (old, new))
    if before != after:
        gone = after == "None" and len([one for one in new["spec"]["versions"] if one["served"]]) > 1
        remedy = "keep the webhook as long as several versions are served" if gone else ""
        yield Change("", "conversion.strategy", f"{before} becomes {after}", remedy)


def _version(old: Json, new: Json) -> Iterator[Change]:
    name = old["name"]
    if old["served"] and not new["served"]:
        yield Change(name, "served", "false: requests of its clients are 404", "serve it, marked as deprecated")
    if old["storage"] and not new["storage"]:
        yield Change(name, "storage", "false: objects are stored in another version with their next write")
    if new.get("deprecated") and not old.get("deprecated"):
        yield Change(name, "deprecated", "clients are warned")
    yield from _subresources(name, old.get("subresources") or {}, new.get("subresources") or {})
    fields = [one["jsonPath"] for one in new.get("selectableFields") or ()]
    for one in old.get("selectableFields") or ():
        if one["jsonPath"] not in fields:
            what = "removed: lists and watches that select by it are refused"
            yield Change(name, f"selectableFields {one['jsonPath']}", what, "keep it")
    before, after = (one["schema"]["openAPIV3Schema"] for one in (old, new))
    for change in _schema(before, after, ""):
        yield change._replace(version=name)


def _subresources(name: str, old: Json, new: Json) -> Iterator[Change]:
    if ("status" in old) != ("status" in new):
        if "status" in old:
            what = "removed: writes of the status are 404, and other writes change it"
        else:
            what = "added: writes of the object leave its status as it was"
        yield Change(name, "subresources.status", what, "do it in a new version, and change its writers with it")
    if "scale" in old and old["scale"] != new.get("scale"):
        what = "removed" if "scale" not in new else "has other paths"
        yield Change(name, "subresources.scale", f"{what}: kubectl scale and autoscalers break", "keep it")


def _schema(old: Json, new: Json, path: str) -> Iterator[Change]:
    """Yield the changes of a schema and of all below it, without their version."""
    before, after = _type(old), _type(new)
    if before != after:
        # Whole numbers are numbers, and both are what an int-or-string takes.
        wider = (before, after) == ("integer", "number") or (after == "integer or string" and before in after)
        what = f"{before} becomes {after}"
        yield Change("", path, what if wider else f"{what}: values are refused", "" if wider else _KEEP_AND_ADD)
        if not wider:
            return
    yield from _values(old, new, path)
    yield from _rules(old, new, path)
    yield from _lists(old, new, path)
    yield from _fields(old, new, path)
    for member, step in (("items", "[]"), ("additionalProperties", ".*")):
        inner, others = old.get(member), new.get(member)
        if isinstance(inner, Mapping) and isinstance(others, Mapping):
            yield from _schema(inner, others, f"{path}{step}")
        elif inner and not others and member == "additionalProperties" and not new.get(_UNKNOWN):
            yield Change("", path, "takes no free keys any more: they are dropped", _KEEP_AND_ADD)


def _values(old: Json, new: Json, path: str) -> Iterator[Change]:
    """Yield the changes of what a value may be."""
    yield from _limits(old, new, path)
    yield from _choices(old.get("enum"), new.get("enum"), path)
    if old.get("nullable") and not new.get("nullable"):
        yield Change("", path, "null is not kept any more: it is refused, or replaced by the default", "keep nullable")
    for composite in _COMPOSITES:
        if old.get(composite) != new.get(composite):
            yield _narrowed(path, f"{composite} changed", wider=composite not in new)
    if "default" in old and old["default"] != new.get("default"):
        what = f"becomes {new['default']!r}" if "default" in new else "removed"
        remedy = "keep it, for rules and clients rely on the value"
        yield Change("", path, f"default: {what}: new objects without a value are others", remedy)


def _limits(old: Json, new: Json, path: str) -> Iterator[Change]:
    for bound, higher in _BOUNDS.items():
        before, after = old.get(bound), new.get(bound)
        if before != after:
            wider = after is None or (before is not None and (after > before) == higher)
            yield _narrowed(path, f"{bound}: {_shown(before)} becomes {_shown(after)}", wider=wider)
    for flag, refused in _FLAGS.items():
        before, after = bool(old.get(flag)), bool(new.get(flag))
        if before != after:
            yield _narrowed(path, f"{flag}: {refused} {'is' if after else 'is not'} refused", wider=before)
    for text in _TEXTS:
        before, after = old.get(text), new.get(text)
        if before != after:
            yield _narrowed(path, f"{text}: {_shown(before)} becomes {_shown(after)}", wider=after is None)


def _choices(old: Any, new: Any, path: str) -> Iterator[Change]:
    if old == new:
        return
    if new is None:
        yield _narrowed(path, "enum removed", wider=True)
    elif old is None:
        yield _narrowed(path, f"enum: takes {new} alone", wider=False)
    else:
        gone = [repr(one) for one in old if one not in new]
        yield _narrowed(path, f"enum: without {', '.join(gone)}" if gone else "enum: takes more", wider=not gone)


def _narrowed(path: str, what: str, *, wider: bool) -> Change:
    if wider:
        return Change("", path, what)
    return Change("", path, f"{what}: values that were accepted are refused", "accept them, or add another version")


def _rules(old: Json, new: Json, path: str) -> Iterator[Change]:
    known = [one["rule"] for one in old.get(_RULES) or ()]
    for one in new.get(_RULES) or ():
        if one["rule"] not in known:
            what = f"rule {one['rule']!r} added: objects that break it are refused"
            remedy = (
                "accept old values: optionalOldSelf: true, and oldSelf.hasValue() && self == oldSelf.value() || (…)"
            )
            yield Change("", path, what, remedy)
    kept = [one["rule"] for one in new.get(_RULES) or ()]
    for rule in known:
        if rule not in kept:
            yield Change("", path, f"rule {rule!r} removed")


def _lists(old: Json, new: Json, path: str) -> Iterator[Change]:
    for mark in _LISTS:
        before, after = old.get(mark), new.get(mark)
        if before != after:
            what = f"{mark.removeprefix('x-kubernetes-')}: {_shown(before)} becomes {_shown(after)}"
            unique = after in ("set", "map") or mark.endswith("keys")
            told = (
                "lists with duplicates are refused, and appliers own other parts"
                if unique
                else "appliers own other parts"
            )
            yield Change("", path, f"{what}: {told}", "keep it")
    if old.get(_UNKNOWN) and not new.get(_UNKNOWN):
        yield Change("", path, "unknown fields are dropped", f"keep {_UNKNOWN}, or list the fields")


def _fields(old: Json, new: Json, path: str) -> Iterator[Change]:
    before, after = old.get("properties") or {}, new.get("properties") or {}
    free = new.get("additionalProperties") or new.get(_UNKNOWN)
    for name, schema in before.items():
        below = f"{path}.{name}".lstrip(".")
        if name in after:
            yield from _schema(schema, after[name], below)
        elif not free:
            yield Change(
                "",
                below,
                "removed: stored values are dropped",
                "keep it, or have it in another version, with a conversion",
            )
    required = set(old.get("required") or ())
    for name in new.get("required") or ():
        below = f"{path}.{name}".lstrip(".")
        if name not in required and "default" not in after.get(name, {}):
            yield Change(
                "", below, "required: objects without it are refused", "give it a default, or make it optional"
            )
    for name in after.keys() - before.keys():
        if not old.get(_UNKNOWN):
            yield Change("", f"{path}.{name}".lstrip("."), "added")


def _type(schema: Json) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind: str = schema.get("type", "any value")
    return kind


def _shown(value: object) -> str:
    return "nothing" if value is None else f"{value!r}"
