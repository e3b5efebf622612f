"""Rules: which requests are disturbed, and how."""

import random as randomness
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Literal, NamedTuple

import msgspec

from kcr.arguments import check_fields
from kcr_devcluster.calls import Call, Verb

FailCode = Literal[403, 404, 409, 410, 429, 500, 503, 504]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=3600)]
_Some = Annotated[int, msgspec.Meta(ge=1)]

# The faults, each with the verbs of the requests that can have it; all verbs where none stands.
_FAULTS: dict[str, tuple[Verb, ...]] = {
    "fail": (), "delay": (), "lose_request": (), "lose_reply": (), "freeze": ("watch",), "cut": ("watch",),
    "repeat": ("watch",), "lag": ("watch",), "expire": ("watch",), "older": ("get", "list", "watch"),
    "interfere": ("update", "patch", "delete"), "truncate": (), "throttle": (),
}  # fmt: skip


class FaultRule(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel", omit_defaults=True
):
    """Which requests are disturbed, and how. Several rules may apply to one request.

    Attributes:
        verb: The API verb; None for all.
        resource: The plural, with the group if there is one (`pods`, `jobs.batch`); empty for all.
        name: A pattern such as `pi-*` for the object's name; empty for all. Creations have no name.
        per_object: Whether `nth` and `times` count the requests for each object by itself.
        nth: Only the n-th such request; 0 for every one.
        times: At most so many requests; 0 for no limit.
        chance: The probability that a request is disturbed.
        fail: Answer with this code; the request is not executed.
        retry_after_seconds: With `fail`: when to try again.
        delay: Execute the request so many seconds later.
        lose_request: Close the connection before the request is executed.
        lose_reply: Execute the request, and close the connection without an answer.
        freeze: Silence a watch after so many lines.
        cut: Close the connection of a watch after so many lines.
        repeat: Send each line of a watch twice.
        lag: Send the lines of a watch so many seconds later.
        expire: Answer a watch that resumes from a version with 410, as if the history had been compacted.
        older: Show the objects as they were so many versions of the cluster ago. The events of a watch that come
            after its initial ones bring it up to date.
        interfere: Change the object just before the request is executed, as another client would: a request that
            names the version of before meets a conflict.
        truncate: Close the connection after so many bytes of the body.
        throttle: Send so many bytes of the body in a second.
    """

    verb: Verb | None = None
    resource: str = ""
    name: str = ""
    per_object: bool = False
    nth: _Count = 0
    times: _Count = 0
    chance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    fail: FailCode | None = None
    retry_after_seconds: _Count = 0
    delay: _Seconds | None = None
    lose_request: Literal[True] | None = None
    lose_reply: Literal[True] | None = None
    freeze: _Count | None = None
    cut: _Count | None = None
    repeat: Literal[True] | None = None
    lag: _Seconds | None = None
    expire: Literal[True] | None = None
    older: _Count | None = None
    interfere: Literal[True] | None = None
    truncate: _Count | None = None
    throttle: _Some | None = None

    def __post_init__(self) -> None:
        """Check the combination of the fields.

        Raises:
            TypeError: A field has a value of another type.
            ValueError: It has no fault or several, or one that requests of its verb cannot have, or a value is out of
                its bounds.
        """
        check_fields("FaultRule", self)
        faults = [name for name in _FAULTS if getattr(self, name) is not None]
        if len(faults) != 1:
            raise ValueError(f"one fault is needed, of {', '.join(map(_wire, _FAULTS))}: there are {len(faults)}")
        verbs = _FAULTS[faults[0]]
        if verbs and self.verb not in verbs:
            raise ValueError(f"{faults[0]} is a fault of verb: {' or '.join(verbs)}")
        if self.retry_after_seconds and self.fail is None:
            raise ValueError("retryAfterSeconds belongs to fail")


def _wire(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


class ArrivingRequest(NamedTuple):
    """The properties of a request that rules select by.

    Attributes:
        call: Verb, resource and name.
        path: Of the object or the collection.
        resumes: Whether it is a watch that starts from a version that the client has seen.
    """

    call: Call
    path: str
    resumes: bool = False


class ActiveRule:
    """A rule in effect, and how often it has been considered and applied.

    Attributes:
        number: Its number at the endpoint; from 1 on, never reused.
        rule: The rule.
        matched: How many requests had its verb, resource and name.
        met: How many of these were disturbed.
    """

    def __init__(self, number: int, rule: FaultRule, random: randomness.Random) -> None:
        self.number = number
        self.rule = rule
        self.matched: int = 0
        self.met: int = 0
        # Its own, so that the requests that other rules take change nothing here.
        self._random = random
        # Both counts by object; by "" where they are not kept so.
        self._matched: Counter[str] = Counter()
        self._met: Counter[str] = Counter()

    def takes(self, request: ArrivingRequest) -> bool:
        """Count a request, and return whether it is disturbed."""
        rule = self.rule
        if not _matches(rule, request):
            return False
        counted = request.path if rule.per_object else ""
        self.matched += 1
        self._matched[counted] += 1
        if rule.nth not in (0, self._matched[counted]) or (rule.times and self._met[counted] >= rule.times):
            return False
        if rule.chance < 1.0 and self._random.random() >= rule.chance:
            return False
        self.met += 1
        self._met[counted] += 1
        return True


def _matches(rule: FaultRule, request: ArrivingRequest) -> bool:
    group, _, plural = request.call.resource
    if rule.verb not in (None, request.call.verb):
        return False
    if rule.resource not in ("", f"{plural}.{group}" if group else plural):
        return False
    if rule.expire and not request.resumes:
        return False
    return not rule.name or fnmatchcase(request.call.name, rule.name)


class RuleSet:
    """The rules in effect, in the order in which they apply; with the same seed they take the same requests."""

    def __init__(self, rules: Iterable[FaultRule] = (), *, seed: int = 0) -> None:
        """Begin with some rules.

        Args:
            rules: They apply in this order.
            seed: Of rules with a chance.
        """
        self._seed = seed
        self._added = 0
        self._active: list[ActiveRule] = []
        for rule in rules:
            self.add(rule)

    def __iter__(self) -> Iterator[ActiveRule]:
        return iter(self._active)

    def __len__(self) -> int:
        return len(self._active)

    def add(self, rule: FaultRule, seed: int | None = None) -> ActiveRule:
        """Have one more rule from now on.

        Args:
            rule: The rule.
            seed: None for that of the set.
        """
        self._added += 1
        # By the place and not the number: after all rules were removed, the same rules take the same requests again.
        random = randomness.Random(f"{self._seed if seed is None else seed}/{len(self._active)}")
        active = ActiveRule(self._added, rule, random)
        self._active.append(active)
        return active

    def remove(self, number: int | None = None) -> list[ActiveRule]:
        """Remove one rule, or all of them for None, and return the removed ones."""
        removed = [one for one in self._active if number in (None, one.number)]
        self._active = [one for one in self._active if one not in removed]
        return removed

    def taken_by(self, request: ArrivingRequest) -> list[FaultRule]:
        """Count a request, and return the rules that disturb it."""
        return [one.rule for one in self._active if one.takes(request)]
