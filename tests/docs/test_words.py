"""Words and sentence shapes: plain technical English, in documents, docstrings, log messages and help texts.

A sentence has a subject, a verb and an object, and names its actor: a user, a client, another field manager, a
controller, the kubelet. A reader finds each of them in the glossary or in Kubernetes' documentation.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("kcr", "controllers", "devcluster", "tests", "docs", "examples", "charts", "bench", "tools",
          "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")  # fmt: skip
ENDINGS = {".py", ".md", ".yaml", ".yml", ".tpl", ".txt", ".toml"}
# The specification quotes upstream, and this file names the words.
LEFT_OUT = (Path("docs/spec"), Path(__file__).relative_to(ROOT))
ACTORLESS = re.compile(r"\b(nobody|somebody|everybody|anybody)\b", re.IGNORECASE)

# Each shape with its usual replacement.
SHAPES = {
    r"\bwhat\b(?! if\b| to ignore at first\b)": "a noun: 'the writes that…', 'the state', 'the cause'",
    r"\b(whoever|whomever|those who|one who|anyone|someone)\b": "the actor: a user, a client, a controller",
    r"\b(is|are|was|were|be|been) told\b": "'receives', 'is called with'",
    r"\btells? (of|which|why|whether|what|it|them)\b": "'reports', 'returns'",
    r"\b(goes|went|(?<!410 )gone|go (on|away|first|back)|going (on|away))\b": "'continues', 'is deleted', 'ends'",
    r"\b(looks?|looked|looking) (at|for|into|like|after|again)\b": "'reads', 'inspects', 'searches', 'resembles'",
    r"\b(hears?|heard)\b|\bwill tell\b": "'receives', 'is called', 'follows'",
    r"\bin (its|their|his|her|your) (own )?words\b|\bthe words of\b": "'quotes', 'with the messages of'",
    r"\bthat there (is|are) not\b|\bthere is not\b": "'missing', 'does not exist'",
    r"\bfor (ever|good)\b": "'endlessly', 'permanently'",
    r"\banew\b": "'again'",
    r"\b(is|are|was|were) there\b(?! (a|an|any|no)\b)": "'exists', 'is ready'",
    r"\b(made|makes|make) (of|for) (it|them)\b": "'created from'",
    r"\b(holds? up|held up)\b": "'blocks', 'delays'",
    r"\bshall\b": "'must', 'should'",
}
BANNED = re.compile("|".join(f"(?:{shape})" for shape in SHAPES), re.IGNORECASE)
# In the sections of a docstring.
ARGUMENT = re.compile(r"^ +\w+: ")
# A heading is a noun, or a symptom.
SENTENCE = re.compile(r"^#+ (?:what|when|where|why|who|how|it|if)\b.*", re.IGNORECASE | re.MULTILINE)

DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "devcluster").glob("*.md"),
    ]
    if path.parent.name != "spec"
)
PYTHON = sorted(
    path for place in ("kcr", "controllers", "devcluster/kcr_devcluster") for path in (ROOT / place).rglob("*.py")
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LEVELS = frozenset({"debug", "info", "warning", "error", "critical", "exception"})
METRICS = frozenset({"Counter", "Gauge", "Histogram", "Row", "Summary", "counter"})


def texts(place: str) -> Iterator[Path]:
    """Yield the files of a place that people write."""
    start = ROOT / place
    for path in [start] if start.is_file() else sorted(start.rglob("*")):
        own = path.relative_to(ROOT)
        if path.suffix in ENDINGS and path.is_file() and not any(own.is_relative_to(left) for left in LEFT_OUT):
            yield path


def lines_with(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return the lines of a text that contain a pattern, with their numbers."""
    return [f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]


def prose(document: str) -> str:
    """Return the text of a document without its code; the line numbers stay."""
    text = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), document, flags=re.DOTALL)
    return re.sub(r"`[^`]*`", lambda code: "code" + "\n" * code[0].count("\n"), text)


@cache
def tree(module: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(module.read_text())


def notes(module: Path) -> Iterator[str]:
    """Yield the lines of a module's docstrings and comments, without code and names of arguments, with line numbers."""
    source = module.read_text()
    lines = source.splitlines()
    for node in ast.walk(tree(module)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            text = node.body[0]
            docstring = prose("\n".join(lines[text.lineno - 1 : text.end_lineno])).splitlines()
            yield from (f"{text.lineno + place}: {ARGUMENT.sub('', one)}" for place, one in enumerate(docstring))
    # Only a module with a line to blame is split into tokens, which takes a while.
    if any("#" in line and BANNED.search(prose(line.partition("#")[2])) for line in lines):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield f"{token.start[0]}: {prose(token.string)}"


def messages(module: Path) -> Iterator[str]:
    """Yield the log messages and the help texts of metrics of a module, with their line numbers."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            texts = node.args[:1] if name in LEVELS else node.args if name in METRICS else []
            for text in texts:
                if isinstance(text, ast.Constant | ast.JoinedStr):
                    yield f"{node.lineno}: {ast.unparse(text)}"


@pytest.mark.parametrize("place", PLACES)
def test_every_sentence_names_its_actor(place: str) -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in texts(place)
        if (lines := lines_with(ACTORLESS, path.read_text()))
    }
    assert found == {}, "say who acts: a user, a client, another controller, the kubelet"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_document_is_in_plain_english(document: str) -> None:
    text = prose((ROOT / document).read_text())
    assert lines_with(BANNED, text) == [], SHAPES
    assert SENTENCE.findall(text) == [], "a heading is a noun"


@pytest.mark.timeout(60)  # they are parsed, all of them
@pytest.mark.parametrize("place", ["kcr", "controllers", "devcluster"])
def test_docstrings_and_comments_are_in_plain_english(place: str) -> None:
    modules = [path for path in PYTHON if path.is_relative_to(ROOT / place)]
    found = [f"{path.relative_to(ROOT)}:{line}" for path in modules for line in notes(path) if BANNED.search(line)]
    assert modules
    assert found == [], SHAPES


def test_log_messages_and_help_texts_are_in_plain_english() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}" for path in PYTHON for line in messages(path) if BANNED.search(line)]
    assert found == [], SHAPES


@pytest.mark.parametrize(
    "sentence",
    [
        "What is too many goes.",
        "The client hears what it is told.",
        "The worker looks at the store.",
        "A program that there is not is an event.",
        "It retries for ever.",
        "Whoever writes it owns it.",
        "An answer in the words of the server.",
    ],
)
def test_banned_shape_is_found(sentence: str) -> None:
    assert BANNED.search(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Deletes the pods that are no longer wanted.",
        "An expired watch (410 Gone) is relisted.",
        "There are no finalizers.",
        "What if the reply is lost?",
    ],
)
def test_plain_sentence_passes(sentence: str) -> None:
    assert not BANNED.search(sentence)


def test_actorless_sentence_and_code_in_prose_are_told_apart() -> None:
    assert lines_with(ACTORLESS, "A condition.\nNobody writes it.") == ["2: Nobody writes it."]
    assert prose("a `go\non` b\n```\nwhat\n```\nc").splitlines() == ["a code", " b", "", "", "", "c"]


def test_places_hold_what_is_written() -> None:
    assert all(any(texts(place)) for place in PLACES)
