"""The Website's definition is what the class says, and its object is valid; its controller is tested beside it."""

from pathlib import Path

import pytest
import yaml

import kcr
from examples.website.api import Website
from kcr.cli.main import exit_code_of
from kcr.testing import FakeManager

DEFINITION = Path("examples/website/manifests/example.dev_websites.yaml")
OBJECT = Path("examples/website/manifests/website.yaml")


def test_definition_is_what_the_class_says() -> None:
    assert exit_code_of(["crd", "generate", "examples.website.api", "-o", str(DEFINITION.parent), "--check"]) == 0
    assert yaml.safe_load(DEFINITION.read_text(encoding="utf-8")) == kcr.crd_manifest(Website)


MANIFEST = yaml.safe_load(OBJECT.read_text(encoding="utf-8"))


@pytest.mark.kcr_virtual
async def test_object_is_valid() -> None:
    client = FakeManager(kinds=[Website]).client.with_options(field_validation="Strict")
    made = await client.create_manifest(Website, MANIFEST, "default")
    assert (made.spec.image, made.spec.replicas) == ("python:3", 2)
