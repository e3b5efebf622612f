"""Round trips of conversions: objects are drawn from the schema of a class, converted to another version and back."""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from kcr.api import codec
from kcr.api.equality import same_json
from kcr.api.meta import Resource
from kcr.api.structural import Schema, object_schema
from kcr.arguments import checked
from kcr.serving.webhooks.conversion import ConversionError, Conversions

R = TypeVar("R", bound=Resource)

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_LETTERS = 'ab0-. "\\é日'
# One of them matches most patterns.
_WORDS = (
    "a", "B", "7", "ab1", "a-b", "a_b", "a.b", "example.dev", "example.dev/a", "10m", "1Gi", "50%", "1h30m", "1.2.3",
    "/a/b", "https://example.dev/a", "a@example.dev", "10.0.0.1", "10.0.0.0/8", "*/5 * * * *", "2026-01-01", "01:30",
    "en-US",
)  # fmt: skip


@checked
def check_round_trip(  # the drawn objects, their number, and the fields to leave out
    kind: type[R],
    through: type[Resource],
    *,
    examples: int = 200,
    seed: int = 0,
    values: Mapping[str, Sequence[object]] = {},
    valid: Callable[[R], bool] = lambda _: True,
) -> None:
    """Check that objects of one version are unchanged after a conversion to another version and back.

    ```python
    def test_conversion_keeps_everything() -> None:
        check_round_trip(WebsiteV1Beta1, Website)
    ```

    Objects are drawn from the schema of the class; CEL rules are not evaluated. With hypothesis installed, a failing
    object is shrunk to a small one.

    Args:
        kind: The class of the version to begin with, usually a spoke.
        through: The class of the other version, usually the hub.
        examples: The number of objects.
        seed: The same seed draws the same objects.
        values: The values of some fields, by path, such as `{"spec.schedule": ("@daily",)}`: for patterns that cannot
            be drawn, and for rules.
        valid: Whether to check an object: for rules between fields.

    Raises:
        AssertionError: An object is changed, or cannot be converted; the message has the object and the difference.
        TypeError: The conversions are incomplete, or no value fits a pattern.
    """
    conversions = Conversions.of(kind, through)
    if conversions is None:
        raise TypeError(f"{kind.__name__}: no function is registered with @kcr.converts")
    schema, names = object_schema(kind), f"{kind.__name__} → {through.__name__} → {kind.__name__}"

    def check(random: Random) -> None:
        drawn = _Draw(random, values).object(schema, "") | {"metadata": _metadata(random)}
        obj = codec.decode(kind, msgspec.json.encode(drawn))
        if not valid(obj):
            return
        try:
            # As bytes in between: the API server stores them, and reads them again.
            middle = codec.decode(through, codec.encode(conversions.convert(obj, through)))
            back = codec.decode(kind, codec.encode(conversions.convert(middle, kind)))
        except (ConversionError, msgspec.DecodeError) as error:
            raise AssertionError(f"{names}: {error}\nobject: {codec.encode(obj).decode()}") from error
        if not same_json(back, obj):
            changed = codec.encode(codec.difference(obj, back)).decode()
            text = codec.encode(obj).decode()
            raise AssertionError(f"{names}: changed by the round trip: {changed}\nobject: {text}")

    _run(check, examples, seed)


def _run(check: Callable[[Random], None], examples: int, seed: int) -> None:
    if find_spec("hypothesis") is None:
        for number in range(examples):
            check(Random(f"{seed}/{number}"))
        return
    import hypothesis  # noqa: PLC0415  # where it is installed
    from hypothesis.strategies import randoms  # noqa: PLC0415

    options = hypothesis.settings(
        max_examples=examples, database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    hypothesis.seed(seed)(options(hypothesis.given(randoms(use_true_random=False))(check)))()


def _metadata(random: Random) -> dict[str, Any]:
    maps = {name: {"a": "1", "example.dev/b": ""} for name in ("labels", "annotations") if random.random() < 0.5}
    fixed = {
        "name": "a",
        "uid": "1",
        "resourceVersion": "5",
        "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {**fixed, "namespace": "default", "finalizers": ["example.dev/a"], **maps}


class _Draw:
    """Draws values that fit a schema."""

    def __init__(self, random: Random, values: Mapping[str, Sequence[object]]) -> None:
        self._random = random
        self._values = values

    def value(self, schema: Schema, path: str) -> Any:
        """Return a value.

        Args:
            schema: A structural schema.
            path: The path of the field, such as `spec.hosts[].port`.
        """
        random = self._random
        if path in self._values:
            return random.choice(self._values[path])
        if schema.get("nullable") and random.random() < 0.2:
            return None
        if "enum" in schema:
            return random.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self.integer(schema, path) if random.random() < 0.5 else self.string(schema, path)
        draw: Callable[[Schema, str], Any] = getattr(self, schema.get("type", "any"))
        return draw(schema, path)

    def any(self, schema: Schema, path: str) -> Any:
        return self._random.choice(({}, {"a": [1, None, {"b": ""}]}, {"a": "x"}))

    def object(self, schema: Schema, path: str) -> dict[str, Any]:
        required, random = schema.get("required", ()), self._random
        made = {
            name: self.value(one, f"{path}.{name}".lstrip("."))
            for name, one in schema.get("properties", {}).items()
            if name in required or random.random() < 0.6
        }
        if isinstance(entry := schema.get("additionalProperties"), dict):
            size = random.randint(schema.get("minProperties", 0), min(schema.get("maxProperties", 3), 3))
            made |= {f"k{number}": self.value(entry, f"{path}.*") for number in range(size)}
        return made

    def array(self, schema: Schema, path: str) -> list[Any]:
        least = schema.get("minItems", 0)
        size = self._random.randint(least, min(schema.get("maxItems", least + 3), least + 3))
        keys = schema.get("x-kubernetes-list-map-keys", ())
        is_set = schema.get("x-kubernetes-list-type") in ("map", "set")
        made: dict[Any, Any] = {}
        for number in range(size * 4):
            item = self.value(schema["items"], f"{path}[]")
            identity = [item.get(key) for key in keys] if keys else item
            made.setdefault(codec.encode(identity) if is_set else number, item)
            if len(made) == size:
                break
        return list(made.values())

    def boolean(self, schema: Schema, path: str) -> bool:
        return self._random.random() < 0.5

    def integer(self, schema: Schema, path: str) -> int:
        least, most, step = _limits(schema)
        low, high, random = int(-(-least // step)), int(most // step), self._random
        number = random.choice(
            (0, 1, 7, -1, 2**31, random.randint(-100, 100), random.randint(low, min(high, low + 100)))
        )
        return max(low, min(high, number)) * step

    def number(self, schema: Schema, path: str) -> float:
        return self.integer(schema, path) / 1 if "multipleOf" in schema else self._fraction(schema)

    def _fraction(self, schema: Schema) -> float:
        least, most = schema.get("minimum", -1e9), schema.get("maximum", 1e9)
        # Away from limits that are excluded.
        gap = min(0.5, (most - least) / 4)
        low, high = least + gap * schema.get("exclusiveMinimum", 0), most - gap * schema.get("exclusiveMaximum", 0)
        number = self._random.choice((0.0, 0.5, 1.0, -1.25, self._random.uniform(-100, 100)))
        return float(max(low, min(high, number)))

    def string(self, schema: Schema, path: str) -> str:
        random, form = self._random, schema.get("format")
        if form in ("date-time", "date"):
            moment = _EPOCH + timedelta(seconds=random.randrange(10**8))
            return moment.strftime("%Y-%m-%dT%H:%M:%SZ" if form == "date-time" else "%Y-%m-%d")
        if form == "uuid":
            return str(UUID(int=random.getrandbits(128)))
        least = schema.get("minLength", 0)
        if form == "byte":
            return base64.b64encode(b"\x00\xffab"[: random.randint(0, 4)] + b"-" * (least * 3 // 4)).decode()
        length = random.randint(least, min(schema.get("maxLength", least + 6), least + 6))
        text = "".join(random.choice(_LETTERS) for _ in range(length))
        return text if "pattern" not in schema else self._matching(schema, path, text)

    def _matching(self, schema: Schema, path: str, text: str) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength", 10**6)
        found = [
            one
            for one in (text, *_WORDS)
            if least <= len(one) <= most and re.search(schema["pattern"], one) is not None
        ]
        if not found:
            raise TypeError(
                f'{path}: found no text for the pattern {schema["pattern"]}: name some with values={{"{path}": (…,)}}'
            )
        return self._random.choice(found)


def _limits(schema: Schema) -> tuple[int, int, int]:
    """Return the least and the greatest number, and the step."""
    least, most = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
    low, high = least + bool(schema.get("exclusiveMinimum")), most - bool(schema.get("exclusiveMaximum"))
    return low, high, schema.get("multipleOf", 1)
