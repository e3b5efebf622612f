"""The embedded server answers as a real one did: the corpus of `parity`, against what is recorded in it."""

from pathlib import Path

import pytest

from tests.apiserver.parity import corpus, page, upstream
from tests.apiserver.parity.answers import alike
from tests.apiserver.parity.servers import embedded


@pytest.mark.kcr_virtual
@pytest.mark.timeout(60)
@pytest.mark.parametrize("area", sorted(page.AREAS))
async def test_answers_are_those_of_a_real_server_but_for_known_ones(area: str) -> None:
    asked = corpus.entries(area)
    async with embedded() as send:
        ours = await corpus.answers_of(send, asked)
    differing = set(corpus.differing(asked, ours))
    known = {key for key in corpus.known() if key in asked}
    assert {key: (asked[key].answer, ours[key]) for key in differing - known} == {}
    assert known - differing == set(), "these agree now: take them from known.yaml"


def test_page_is_what_the_corpus_says() -> None:
    # In one test, for reading the rows takes a second.
    rows = corpus.entries()
    assert set(corpus.known()) - set(rows) == set(), "known differences of rows that are not there"
    assert [key for key, entry in rows.items() if entry.answer is None] == [], "without the answer of a real server"
    assert set(corpus.areas(rows)) == set(page.AREAS), "each area is explained"
    assert page.PAGE.read_text(encoding="utf-8") == page.page(rows), "run make parity"


# Not upstream's: the forms that its table uses.
TABLE = """
func TestValidationExpressions(t *testing.T) {
	tests := []struct {
		name string
	}{
		// a comment
		{name: "numbers \\"and\\" text",
			obj:    objs(int64(1), "a", -2),
			schema: schemas(integerType, withNullable(true, stringType), int64Type),
			valid: []string{
				ValsEqualThemselvesAndDataLiteral("self.val1", "self.val1", fmt.Sprintf("%d", 1)),
				`self.val2 == "a"`,
			},
			errors: map[string]string{"self.val1 / 0 == 1": "division by zero", "self.val1 == 1": "refused"},
		},
		{name: "objects",
			obj: map[string]interface{}{"o": map[string]interface{}{}, "l": []interface{}{"x", nil}},
			schema: &schema.Structural{
				Generic:    schema.Generic{Type: "object"},
				Properties: map[string]schema.Structural{"l": listType(&stringType), "o": {
					Extensions: schema.Extensions{XPreserveUnknownFields: true},
				}},
			},
			valid: []string{"self.l.size() == 2"},
		},
	}
	for i := range tests {
	}
}
"""


def test_upstream_table_is_read_from_a_checkout(tmp_path: Path) -> None:
    file = tmp_path / "pkg/apiserver/schema/cel/validation_test.go"
    file.parent.mkdir(parents=True)
    file.write_text(TABLE, encoding="utf-8")
    rows = upstream.rows(tmp_path)
    assert [(row.name, row.rule, row.error) for row in rows] == [
        ('numbers "and" text', "self.val1 == 1 && 1 == self.val1 && self.val1 == self.val1", None),
        ('numbers "and" text', 'self.val2 == "a"', None),
        ('numbers "and" text', "self.val1 / 0 == 1", "division by zero"),
        ('numbers "and" text', "self.val1 == 1", "refused"),
        ("objects", "self.l.size() == 2", None),
    ]
    assert rows[0].value == {"val1": 1, "val2": "a", "val3": -2}
    assert rows[4].schema["properties"]["o"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert [bool(upstream.difference(row)) for row in rows] == [False, False, False, True, False]


def test_age_of_a_row_alone_may_differ() -> None:
    recorded = {"rows[0].cells": ["x1", 1, "0s"], "spec.timeout": "1s"}
    assert alike(recorded, recorded | {"rows[0].cells": ["x1", 1, "3s"]})
    assert not alike(recorded, recorded | {"rows[0].cells": ["x1", 1, "<unknown>"]})
    assert not alike(recorded, recorded | {"spec.timeout": "2s"})
