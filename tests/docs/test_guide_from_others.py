"""The guides for those who come from controller-runtime and kopf: their programs run, as a reader would paste them."""

import json
import re
import sys
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.documents import ROOT, blocks, files
from tests.kit.generated import imported

FROM_GO = ROOT / "docs" / "guide" / "from-controller-runtime.md"
FROM_KOPF = ROOT / "docs" / "guide" / "from-kopf.md"


def test_every_program_but_the_one_in_go_is_run() -> None:
    assert [block.language for block in blocks(FROM_GO) if not block.file] == ["go"]
    assert list(files(FROM_GO)) == ["pages.py"]
    # The commands are those of the test in tests/e2e/test_from_kopf.py.
    assert {block.language for block in blocks(FROM_KOPF) if not block.file} == {"console"}
    assert list(files(FROM_KOPF)) == ["with_kopf.py", "notes.py"]


@pytest.mark.kcr_virtual
async def test_page_of_the_controller_that_was_in_go_is_deleted_with_its_note(kcr_clock: VirtualClock) -> None:
    with imported(files(FROM_GO)["pages.py"], "pages") as pages:
        async with EmbeddedCluster(clock=kcr_clock, random=Random(0), kinds=[pages.Note]) as cluster:
            client, about = cluster.client, kcr.ObjectMeta(name="first", namespace="default")
            manager = kcr.Manager(client, clock=kcr_clock)
            pages.setup(manager)
            async with manager.running():
                note = await client.create(pages.Note(metadata=about, spec=pages.NoteSpec(text="hi")))
                await kcr_clock.advance(1)
                assert (await client.get(ConfigMap, note.key)).data == {"text": "hi"}
                await client.delete(pages.Note, note.key)
                await kcr_clock.advance(60)
                assert await client.list(ConfigMap, "default") == ()


@pytest.mark.parametrize("guide", [FROM_GO, FROM_KOPF], ids=["go", "kopf"])
def test_names_of_kcr_in_the_guides_exist(guide: Path) -> None:

    named = set(re.findall(r"\bkcr\.([A-Za-z_]\w+)", guide.read_text())) - {"testing", "api", "cluster", "dev"}
    assert len(named) > 15
    assert not [name for name in named if not hasattr(kcr, name)]


@pytest.mark.kcr_virtual
async def test_object_that_kopf_left_is_moved_and_repaired(
    kcr_clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = ModuleType("notes")
    monkeypatch.setitem(sys.modules, "notes", notes)
    exec(files(FROM_KOPF)["notes.py"], notes.__dict__)
    (repair,) = re.findall(r"kubectl patch note left --type json -p '(.*)'", FROM_KOPF.read_text())
    (left,) = {step["value"] for step in json.loads(repair) if step["op"] == "test"}
    about = kcr.ObjectMeta(name="left", namespace="default", finalizers=(left,))
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None, kinds=[notes.Note]) as cluster:
        client = cluster.client
        manager = kcr.Manager(client, clock=kcr_clock, random=Random(1))
        notes.setup(manager)
        async with manager.running():
            made = await client.create(notes.Note(metadata=about, spec=notes.NoteSpec(text="two words")))
            await kcr_clock.advance(1)
            assert (await client.get(notes.Note, made.key)).status.words is None
            await client.merge_patch(notes.Note, made.key, {"metadata": {"labels": {"operator": "kcr"}}})
            await kcr_clock.advance(1)
            moved = await client.get(notes.Note, made.key)
            assert (moved.status.words, moved.metadata.finalizers) == (2, (left, "example.dev/archive"))
            await client.json_patch(notes.Note, made.key, json.loads(repair))
            await client.delete(notes.Note, made.key)
            await kcr_clock.advance(1)
            assert await client.list(notes.Note) == ()
    assert "archived left" in capsys.readouterr().out
