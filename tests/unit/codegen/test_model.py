import pytest

from kcr_devcluster.codegen.model import CallExpr, Either, Expr, Later, Pair, Text, flat, literal, names_in, quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a", '"a"', id="plain"),
        pytest.param("it's", '"it\'s"', id="single-quote"),
        pytest.param('a "b"', "'a \"b\"'", id="double-quotes"),
        pytest.param("""'"b"'""", """"'\\"b\\"'\"""", id="as-many-of-both"),
        pytest.param("\\d\n", '"\\\\d\\n"', id="backslash"),
        pytest.param("\\'", '"\\\\\'"', id="backslash-before-a-quote"),
    ],
)
def test_text_is_quoted_as_the_formatter_does(text: str, shown: str) -> None:
    assert quoted(text) == shown
    assert eval(shown) == text


@pytest.mark.parametrize(
    ("expr", "shown"),
    [
        pytest.param(CallExpr("tuple", ("str", "..."), "[]"), "tuple[str, ...]", id="subscript"),
        pytest.param(CallExpr("", ("1",)), "(1,)", id="tuple-of-one"),
        pytest.param(CallExpr("Meta", (Pair("ge", "1"),)), "Meta(ge=1)", id="call"),
        pytest.param(Either(("int", "None")), "int | None", id="union"),
        pytest.param(Later(Either(("A", "None"))), '"A | None"', id="forward-reference"),
        pytest.param(literal({"a": [1, True, None, "x"]}), '{"a": (1, True, None, "x")}', id="json"),
    ],
)
def test_expression_on_one_line(expr: Expr, shown: str) -> None:
    assert flat(expr) == shown


def test_names_are_those_to_import() -> None:
    expr = CallExpr("Annotated", (Either(("msgspec.Raw", "Port")), Pair("ge", Text("Text"))), "[]")
    assert set(names_in(expr)) == {"Annotated", "msgspec", "Port"}
