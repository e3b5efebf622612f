from tools.api_types import FOLDER, modules


def test_complete_types_are_what_the_schema_says() -> None:
    written = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py") if path.stem != "__init__"}
    assert written == modules(), "run python -m tools.api_types"
