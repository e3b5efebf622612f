"""Defects of the API server that the invariants must find; tests/chaos/planting.py says how they are written."""

from tests.chaos.planting import Edit, defect

DEFECTS = (
    # Of the versions that are not stored: the check must not take each of their refusals for a contradiction.
    defect(
        "other-versions-refuse-what-did-not-change",
        Edit(
            "_view",
            "return replace(A, conversion=B)",
            also="A.strategy.validate_update = lambda new, old: A.strategy.validate(new)",
        ),
    ),
    defect(
        "other-versions-require-a-field-of-their-own",
        Edit(
            "_view",
            "return replace(A, conversion=B)",
            also="A.strategy._schema = {**A.openapi_schema, 'required': ['color']}",
        ),
    ),
)
