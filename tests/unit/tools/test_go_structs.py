import hashlib
from pathlib import Path

import msgspec

from tools.go_structs import STRUCTS, go_structs
from tools.schema import VERSION

TEXT = STRUCTS.read_text()
PARSED = msgspec.json.decode(TEXT)
SOURCE = """
type PodTemplateSpec struct {
	// What it is.
	metav1.ObjectMeta
	Spec PodSpec
}

type Taint struct {
	Key    string
	Value  *string
	Effect TaintEffect // which one
	Limit  resource.Quantity `json:"limit"`
	Probe
}

type Probe struct {
	Times int32
	On    bool
	Moment metav1.Time
	Names []string
}

type TaintEffect string
"""


def test_table_is_of_the_version_of_the_schema() -> None:
    assert PARSED["source"]["kubernetes"] == VERSION


def test_table_was_not_changed_by_hand() -> None:
    digest = f'"{PARSED["sha256"]}"'
    assert hashlib.sha256(TEXT.partition(digest)[2].encode()).hexdigest() == PARSED["sha256"]


def test_fields_stand_in_the_order_of_the_struct_with_their_zeros(tmp_path: Path) -> None:
    folder = tmp_path / "pkg" / "apis" / "core"
    folder.mkdir(parents=True)
    (folder / "types.go").write_text(SOURCE)
    types = msgspec.json.decode(go_structs([tmp_path]))["types"]
    assert types["core.v1.PodTemplateSpec"] == "@ Spec:o"
    assert types["core.v1.Taint"] == "Key:s Value Effect:s Limit:q Times:i On:b Moment Names"
