from typing import Any

import pytest

from kcr.apiserver.kinds.core import ConfigMapStrategy, SecretStrategy
from kcr.apiserver.kinds.core.shape import UndecodableError
from kcr.apiserver.kinds.strategy import Manifest
from tests.kit.manifests import texts


def faults_of_config_map(**members: Any) -> list[str]:
    return texts(ConfigMapStrategy().validate({"metadata": {}, **members}))


def test_config_map_is_held_to_keys_and_size() -> None:
    assert faults_of_config_map(data={"a.b_c-D": "x"}, binaryData={"b": "eA=="}) == []
    assert faults_of_config_map(data={"a b": "x"})[0].startswith('data[a b]: Invalid value: "a b": a valid config key')
    assert faults_of_config_map(data={"a": "x"}, binaryData={"a": ""})[0].startswith("data[a]: Invalid value")
    # AS 16.5
    assert faults_of_config_map(data={"a": "x" * 1048577}) == ["[]: Too long: may not be more than 1048576 bytes"]


def test_sealed_config_map_does_not_change() -> None:
    words = "Forbidden: field is immutable when `immutable` is set"
    old: Manifest = {"metadata": {}, "immutable": True, "data": {"a": "b"}}
    faults = ConfigMapStrategy().validate_update({"metadata": {}, "data": {"a": "c"}}, old)
    assert texts(faults) == [f"immutable: {words}", f"data: {words}"]
    assert ConfigMapStrategy().validate_update(dict(old), old) == []


def test_secret_folds_text_into_base64() -> None:
    # AS 16.5
    obj: Manifest = {"metadata": {}, "data": {"a": "eA=="}, "stringData": {"b": "y"}}
    SecretStrategy().default(obj)
    assert obj == {"metadata": {}, "type": "Opaque", "data": {"a": "eA==", "b": "eQ=="}}


def test_secret_with_bad_base64_is_no_secret() -> None:
    with pytest.raises(UndecodableError, match="illegal base64 data"):
        SecretStrategy().default({"metadata": {}, "data": {"a": "?"}})


def test_type_of_secret_does_not_change() -> None:
    (fault,) = SecretStrategy().validate_update({"type": "a"}, {"type": "b"})
    assert texts([fault]) == ['type: Invalid value: "a": field is immutable']
