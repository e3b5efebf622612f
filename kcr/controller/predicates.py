"""Which changes of a watched object matter.

```python
kcr.watch(Website, predicate=any_of(kcr.generation_changed, labels_changed))
```

A predicate is a function of the object before and the object after: None before means that it was created or is seen
for the first time, None after that it is deleted. Those named `…_changed` let both pass. A user who drops a change must
be sure that no reconcile needs it, for nothing brings it back.

Source: controller-runtime/pkg/predicate/predicate.go.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kcr.api.meta import Resource
from kcr.api.selectors import LabelSelector, matches
from kcr.arguments import checked, refuse

# Not generic: the same predicate serves watches of any kind, and combinations of such.
Predicate = Callable[[Any, Any], bool]


def resource_version_changed(old: Resource | None, new: Resource | None) -> bool:
    """Drop updates with an unchanged resourceVersion, such as those of a resync."""
    return _differs(old, new, lambda obj: obj.metadata.resource_version)


def generation_changed(old: Resource | None, new: Resource | None) -> bool:
    """Drop updates with an unchanged generation: changes of the status subresource and of metadata.

    Changes of labels, annotations, finalizers and owners do not raise the generation either: add their predicates
    with `any_of` when a reconcile reads them. A deletion that begins does raise it. Of kinds without a generation,
    such as ConfigMaps, Secrets and Services, all updates pass but those with an unchanged resourceVersion; upstream
    drops all of them.
    """
    # A server that begins to count them states one.
    return _differs(old, new, lambda obj: obj.metadata.generation or f"version {obj.metadata.resource_version}")


def labels_changed(old: Resource | None, new: Resource | None) -> bool:
    """Leave out changes that touch no label."""
    return _differs(old, new, lambda obj: obj.metadata.labels)


def annotations_changed(old: Resource | None, new: Resource | None) -> bool:
    """Leave out changes that touch no annotation."""
    return _differs(old, new, lambda obj: obj.metadata.annotations)


def finalizers_changed(old: Resource | None, new: Resource | None) -> bool:
    """Leave out changes that touch no finalizer; beside `generation_changed` for reconcilers that call `finalized`."""
    return _differs(old, new, lambda obj: obj.metadata.finalizers)


@checked
def labels_match(selector: LabelSelector | Mapping[str, str]) -> Predicate:
    """Leave out objects whose labels do not match a selector, or lack one of some labels.

    An object that matched before a change or matches after it passes, so that its leaving is noticed as well;
    upstream evaluates the labels after the change only.
    """
    wanted = selector if isinstance(selector, LabelSelector) else LabelSelector(match_labels=selector)

    def predicate(old: Resource | None, new: Resource | None) -> bool:
        return any(obj is not None and matches(wanted, obj.metadata.labels) for obj in (old, new))

    return _named("labels_match", (), predicate)


@checked
def all_of(*predicates: Predicate) -> Predicate:
    """Pass changes that all predicates pass."""
    return _named("all_of", predicates, lambda old, new: all(predicate(old, new) for predicate in predicates))


@checked
def any_of(*predicates: Predicate) -> Predicate:
    """Pass changes that at least one predicate passes."""
    if not predicates:
        refuse("any_of: it has no predicate, and would pass no change: give it one at least")
    return _named("any_of", predicates, lambda old, new: any(predicate(old, new) for predicate in predicates))


@checked
def none_of(*predicates: Predicate) -> Predicate:
    """Pass changes that no predicate passes."""
    return _named("none_of", predicates, lambda old, new: not any(predicate(old, new) for predicate in predicates))


def name_of(predicate: Predicate | None) -> str:
    """Return what people call a predicate: a lambda by its line."""
    name = getattr(predicate, "__name__", type(predicate).__name__)
    if name != "<lambda>":
        return str(name)
    code = predicate.__code__  # type: ignore[union-attr]  # of a lambda
    return f"lambda at {Path(code.co_filename).name}:{code.co_firstlineno}"


def _named(combination: str, predicates: tuple[Predicate, ...], made: Predicate) -> Predicate:
    made.__name__ = f"{combination}({', '.join(map(name_of, predicates))})"
    return made


def _differs(old: Resource | None, new: Resource | None, part: Callable[[Resource], object]) -> bool:
    return old is None or new is None or part(old) != part(new)
