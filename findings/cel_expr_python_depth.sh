#!/usr/bin/env bash
# Shows how deep expressions may be for cel-expr-python, and what counts as deep. Installs the package in a temporary folder; needs
# Python 3.11 or newer. Exit code: 0 while the behaviour is as described, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check cel-expr-python==0.1.3
exec "$folder/venv/bin/python" - <<'PYTHON'
import sys

from cel_expr_python import cel

environment = cel.NewEnv(variables={"x": cel.Type.INT, "o": cel.Type.DYN})


def answer(text):
    try:
        return str(environment.compile(text).eval(data={"x": 1, "o": {}}).value())[:40]
    except RuntimeError as error:
        return "refused: " + str(error).splitlines()[0].removeprefix("INVALID_ARGUMENT: ").partition(" [")[0][-52:]


def limit(make):
    return next(size for size in range(1, 400) if answer(make(size)).startswith("refused"))


seen = {
    "terms of a sum": limit(lambda size: " + ".join(["x"] * size)),
    "texts that are joined by +": limit(lambda size: " + ".join(["'a'"] * size)),
    "choices in a row, a ? b : c ? d : ...": limit(lambda size: "x == 2 ? 2 : " * size + "x"),
    "parentheses": limit(lambda size: "(" * size + "x" + ")" * size),
}
flat = {
    "200 conditions with &&": answer(" && ".join(["x == 1"] * 200)),
    "200 signs !": answer("!" * 200 + "true"),
    "a list of 200": answer(f"size([{', '.join(['x'] * 200)}])"),
}
print(f"cel-expr-python 0.1.3, Python {sys.version.split()[0]}")
print("The parser takes 32 levels, where cel-go, which Kubernetes uses, takes 250; no argument changes it. A sum is as deep as")
print("it has terms, so an expression that joins some thirty texts is refused: the smallest that is, by form:")
for what, size in seen.items():
    print(f"- {what}: {size}")
print("Conditions joined by && or || are balanced, and lists and signs are flat: these have a value.")
for what, said in flat.items():
    print(f"- {what}: {said}")
print(f"- message: {answer(' + '.join(['x'] * 60))}")
expected = all(20 <= size <= 40 for size in seen.values()) and not any(said.startswith("refused") for said in flat.values())
sys.exit(not expected)
PYTHON
