"""Modules of classes as text, formatted as `ruff format` formats them."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from kcr_devcluster.codegen.model import (
    EMPTY_MAP,
    CallExpr,
    Class,
    ClassField,
    Either,
    Expr,
    Later,
    Pair,
    Text,
    encoded,
    flat,
    names_in,
    quoted,
)

_WIDTH = 120
# Where names of annotations and defaults come from, beside the classes of the module.
HOMES: Mapping[str, str] = {
    "Mapping": "collections.abc",
    "datetime": "datetime",
    **dict.fromkeys(("Annotated", "Any", "Literal", "Self"), "typing"),
    "msgspec": "",
    **dict.fromkeys(("IntOrString", "ListType", "PrinterColumn", "Quantity", "ScaleSubresource", "Validation"),
                    "kcr.api.markers"),
    **dict.fromkeys(("Condition", "FullResource", "MicroTime", "Object", "ObjectMeta", "OwnerReference", "copy_raw"),
                    "kcr.api.meta"),
    **dict.fromkeys(("LabelSelector", "Requirement"), "kcr.api.selectors"),
}  # fmt: skip
# Rules for docstrings that prose of others does not keep.
_PROSE = "D101, D200, D205, D212, D402, D403, D405, D410, D411, D412, D414, D415, D416, RUF001, RUF002, RUF100"
# A plain default of this is left out on the wire, for it is empty.
_WRITTEN = Text("")
_STANDARD = ("collections.abc", "datetime", "typing")


_DETACHED = '''\
    def detached(self) -> Self:
        """Return the object free of the bytes it was decoded from."""
        return copy_raw(self)
'''
_REPR = '''\
    def __repr__(self) -> str:
        """Return a form for people and logs, without secret values."""
        return f"{type(self).__name__}({self.key})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Do the same for tracebacks that show local variables."""
        return [("key", str(self.key))]
'''


def module_text(title: str, classes: Iterable[Class], command: str, elsewhere: Mapping[str, str] | None = None) -> str:
    """Return the text of a module.

    Args:
        title: The first line of its docstring.
        classes: In any order.
        command: The command that makes the module, for its header.
        elsewhere: For a module of kcr itself, the modules of classes that stand in others, by name.
    """
    ordered = _ordered({one.name: one for one in classes})
    used = {name for one in ordered for name in _names_used(one)} - {one.name for one in ordered}
    # The modules of kcr itself have no prose.
    rules = "" if elsewhere is not None else f"# ruff: noqa: {_PROSE}\n"
    head = f'# Made by `{command}`: do not edit.\n{rules}"""{title}"""\n\n'
    return (
        head
        + _imports(used, {**HOMES, **(elsewhere or {})}, is_own=elsewhere is not None)
        + "".join(f"\n\n{_class(one)}" for one in ordered)
    )


def _ordered(classes: Mapping[str, Class]) -> list[Class]:
    """Return the classes such that each comes after those that it names; where they form a circle, names are quoted."""
    done: dict[str, Class] = {}
    begun: set[str] = set()

    def visit(one: Class) -> None:
        begun.add(one.name)
        for name in sorted(one.refers):
            if name in classes and name not in begun:
                visit(classes[name])
        fields = (
            field._replace(type=Later(field.type)) if begun & set(names_in(field.type)) - done.keys() else field
            for field in one.fields
        )
        done[one.name] = one._replace(fields=tuple(fields))

    for one in classes.values():
        if one.name not in begun:
            visit(one)
    return list(done.values())


def _names_used(one: Class) -> Iterator[str]:
    yield one.base
    for field in one.fields:
        yield from names_in(field.type)
        yield from ("msgspec",) if _is_called(field) else ()
        yield from names_in(field.default)
    for pair in one.keywords:
        yield from names_in(pair)
    if one.holds_raw:
        yield from ("Self", "copy_raw")
    if one.is_secret:
        yield "Any"


def _imports(used: set[str], homes: Mapping[str, str], *, is_own: bool) -> str:
    found: dict[str, list[str]] = {}
    for name in sorted(used & homes.keys(), key=str):
        found.setdefault(homes[name], []).append(name)
    standard = [home for home in found if home in _STANDARD]
    third = ["import msgspec"] if "" in found else []
    own = sorted(home for home in found if home and home not in _STANDARD)
    kcr = [_import(home, found[home]) for home in own]
    # In a user's package, kcr is a third-party library like msgspec.
    groups = [[_import(home, found[home]) for home in sorted(standard)], *([third, kcr] if is_own else [third + kcr])]
    return "\n".join("".join(f"{line}\n" for line in group) for group in groups if group)


def _import(home: str, names: list[str]) -> str:
    line = f"from {home} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return line
    return f"from {home} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _class(one: Class) -> str:
    bases = CallExpr(one.name, (one.base, *one.keywords))
    body = [_docstring(one), *(f"    {_field(field)}\n" for field in one.fields)]
    body += [f"\n{text}" for text, is_needed in ((_DETACHED, one.holds_raw), (_REPR, one.is_secret)) if is_needed]
    first = "\n" if one.fields and body[0] else ""
    text = body[0] + first + "".join(body[1:])
    return f"class {_laid_out(bases, 0, len('class :'))}:\n{text or '    pass' + chr(10)}"


def _docstring(one: Class) -> str:
    told = [f"    {field.name}: {_entry(field)}" for field in one.fields if field.text]
    lines = [_filled(paragraph, "") for paragraph in _paragraphs(one.text)]
    if told:
        lines.append("Attributes:\n" + "\n".join(told))
    text = "\n\n".join(lines)
    if not text:
        return ""
    text = text.replace('"""', "'''")
    prefix = "r" if "\\" in text else ""
    # A text of entries alone begins below the quotes, or they would count as indented too far.
    indented = ("\n    " if text.startswith("Attributes:") else "") + textwrap.indent(text, "    ").lstrip()
    closing = (
        '"""'
        if "\n" not in text and not text.endswith(('"', "\\")) and len(prefix + text) <= _WIDTH - 10
        else '\n    """'
    )
    return f'    {prefix}"""{indented}{closing}\n'


def _paragraphs(text: str) -> list[str]:
    clean = "".join(one if one.isprintable() or one == "\n" else " " for one in text)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", clean) if part.strip()]


def _entry(field: ClassField) -> str:
    first, *more = _paragraphs(field.text)
    begun = textwrap.fill(
        first, _WIDTH - 4, initial_indent=" " * (len(field.name) + 6), subsequent_indent=" " * 8,
        break_long_words=False, break_on_hyphens=False,
    ).lstrip()  # fmt: skip
    return "\n\n".join((begun, *(_filled(paragraph, " " * 8) for paragraph in more)))


def _filled(paragraph: str, indent: str) -> str:
    return textwrap.fill(
        paragraph, _WIDTH - 8, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _is_called(field: ClassField) -> bool:
    """Return whether a field needs a call of msgspec.field: its name is another, or an empty text is to be written."""
    return encoded(field.name) != field.wire or field.default == _WRITTEN


def _field(field: ClassField) -> str:
    """Return a field of a class as it stands behind its indentation."""
    default = field.default
    if _is_called(field):
        named = (Pair("name", Text(field.wire)),) if encoded(field.name) != field.wire else ()
        default = CallExpr("msgspec.field", (*_default(default), *named))
    line = f"{field.name}: {flat(field.type)}"
    end = f" = {flat(default)}" if default is not None else ""
    if 4 + len(line) + len(end) <= _WIDTH:
        return line + end
    if isinstance(default, CallExpr) and default.items and 4 + len(line) + len(f" = {default.head}(") <= _WIDTH:
        return f"{line} = {_laid_out(default, 4, len(line) + 3)}"
    if isinstance(field.type, Either) and default is not None:
        if 4 + len(line) + len(" = (") <= _WIDTH:
            return f"{line} = (\n        {_laid_out(default, 8, 0)}\n    )"
        parts = [_laid_out(one, 8, 2) for one in field.type.parts]
        is_one_line = len(f"        {flat(field.type)}") <= _WIDTH
        union = flat(field.type) if is_one_line else "\n        | ".join(parts)
        return f"{field.name}: (\n        {union}\n    ){end}"
    begun = f"{field.name}: {_laid_out(field.type, 4, len(field.name) + 2 + len(end))}"
    if default is None:
        return begun
    return f"{begun} = {_laid_out(default, 4, len(begun.rpartition(chr(10))[2]) - 1)}"


def _default(of: Expr | None) -> tuple[Pair, ...]:
    if of is None:
        return ()
    factories: dict[Expr, str] = {EMPTY_MAP: "dict", _WRITTEN: "str"}
    return (Pair("default_factory", factories[of]),) if of in factories else (Pair("default", of),)


def _laid_out(expr: Expr, indent: int, taken: int) -> str:
    """Return an expression on one line where it fits, else with one item a line.

    Args:
        expr: The expression.
        indent: Of the line that it begins on.
        taken: The rest of that line.
    """
    if indent + taken + len(flat(expr)) <= _WIDTH:
        return flat(expr)
    match expr:
        case CallExpr(head, items, brackets) if items:
            inner = "".join(f"{' ' * (indent + 4)}{_laid_out(one, indent + 4, 1)},\n" for one in items)
            return f"{head}{brackets[0]}\n{inner}{' ' * indent}{brackets[1]}"
        case Pair(name, value, sign):
            return f"{name}{sign}{_laid_out(value, indent, taken + len(name) + len(sign))}"
        case Either((first, *rest)) if isinstance(first, CallExpr):
            return " | ".join((_laid_out(first, indent, 0), *(flat(one) for one in rest)))
        case Text(value):
            return _concatenated(value, indent)
    return flat(expr)


def _concatenated(value: str, indent: int) -> str:
    """Return a long text as several literals, one a line, in parentheses."""
    room, parts = _WIDTH - indent - 8, [""]
    for word in re.split(r"(?<=\s)", value):
        if parts[-1] and len(quoted(parts[-1] + word)) > room:
            parts.append("")
        parts[-1] += word
    if len(parts) == 1:
        return flat(Text(value))
    lines = "".join(f"{' ' * (indent + 4)}{quoted(part)}\n" for part in parts)
    return f"(\n{lines}{' ' * indent})"
