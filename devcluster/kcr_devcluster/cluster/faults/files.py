"""Rules in YAML or JSON: a mapping of `seed` and `faults`, a list of rules."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import msgspec

from kcr.errors import ConfigError
from kcr_devcluster.calls import Verb
from kcr_devcluster.cluster.faults.listener_faults import ListenerFaults
from kcr_devcluster.cluster.faults.rules import FailCode, FaultRule
from kcr_devcluster.yaml_json import YamlError, load_yaml

_TOP = {"seed", "faults"}
# The permitted values of a rule's fields, by the path at which msgspec names another value.
_VALUES = {"$.verb": get_args(Verb), "$.fail": get_args(FailCode)}


class WrittenFaults(NamedTuple):
    """Rules as they are written down; the seed is None where there is none."""

    seed: int | None
    rules: Sequence[FaultRule]


def decode_faults(text: str | bytes) -> WrittenFaults:
    """Return the rules of a text.

    Raises:
        ValueError: It is not YAML, or rules are wrong; the message names each of them.
    """
    content = load_yaml(text)
    if not isinstance(content, dict) or not isinstance(content.get("faults"), list) or set(content) - _TOP:
        raise ValueError("a mapping with a list `faults`, and a number `seed` if you like, is needed")
    if type(content.get("seed", 0)) is not int:
        raise ValueError("seed: a whole number is needed")
    rules, wrong = [], []
    for number, one in enumerate(content["faults"], 1):
        try:
            rules.append(msgspec.convert(one, FaultRule))
        except msgspec.ValidationError as error:
            wrong.append(f"rule {number}: {error}{_allowed(str(error))}")
    if wrong:
        raise ValueError("; ".join(wrong))
    return WrittenFaults(content.get("seed"), rules)


def _allowed(error: str) -> str:
    values = next((values for path, values in _VALUES.items() if error.endswith(f"`{path}`")), ())
    return f": {', '.join(map(str, values))} are known" if values and error.startswith("Invalid enum value") else ""


def read_faults(file: Path) -> ListenerFaults:
    """Return the rules of a file.

    Raises:
        ConfigError: It cannot be read, or rules are wrong; the message names each of them.
    """
    try:
        written = decode_faults(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}: name a file of rules, in YAML or JSON") from error
    except YamlError as error:
        raise ConfigError(f"{file}: not YAML: {error.in_file}") from error
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from error
    return ListenerFaults(written.rules, seed=written.seed or 0)
