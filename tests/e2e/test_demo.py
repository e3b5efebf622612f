"""`make demo`: which Job it runs, judged by the perl of the machine."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("perl") is None, reason="no perl on the PATH")]

PERL, PYTHON = "kcr dev -f examples/pi.yaml --wait", "kcr dev -f examples/pi-python.yaml --wait"


def commands(modules: Path) -> str:
    """Return what `make demo` would run, where the perl of the PATH has the modules of a folder."""
    perl = modules / "perl"
    perl.write_text(f'#!/bin/sh\nexec {shutil.which("perl")} -I"{modules}" "$@"\n')
    perl.chmod(0o755)
    path = f"{modules}:{os.environ['PATH']}"
    done = subprocess.run(
        ["make", "-n", "demo"], cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    return done.stdout


def with_perl(folder: Path, version: str) -> Path:
    """Write the modules of a perl: all that they have is a version, so nothing can be computed."""
    (folder / "Math").mkdir()
    (folder / "Math" / "BigFloat.pm").write_text(f"package Math::BigFloat; our $VERSION = '{version}'; 1;")
    (folder / "bignum.pm").write_text("package bignum; 1;")
    return folder


@pytest.mark.parametrize(
    ("version", "command"),
    [
        pytest.param("1.999818", PERL, id="of-perl-5.34"),
        pytest.param("1.999830", PYTHON, id="of-perl-5.36-which-fails"),
        pytest.param("1.999832", PYTHON, id="which-prints-zeros"),
        pytest.param("1.999837", PERL, id="of-perl-5.38"),
        pytest.param("2.003002", PERL, id="of-perl-5.42"),
    ],
)
def test_demo_runs_perl_where_its_modules_can(tmp_path: Path, version: str, command: str) -> None:
    assert command in commands(with_perl(tmp_path, version))


def test_demo_runs_python_where_perl_has_no_bignum(tmp_path: Path) -> None:
    # As perl-base of Debian has none.
    (tmp_path / "bignum.pm").write_text("die 'not installed';")
    assert PYTHON in commands(tmp_path)


def test_modules_that_pods_do_not_get_count_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, systems = tmp_path / "own", tmp_path / "systems"
    own.mkdir()
    systems.mkdir()
    monkeypatch.setenv("PERL5LIB", str(with_perl(own, "1.999837")))
    (systems / "bignum.pm").write_text("die 'not installed';")
    assert PYTHON in commands(systems)
