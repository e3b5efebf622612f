"""A project of `kcr init`: its own tests; and the way of its README, word for word."""

import asyncio
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from sysconfig import get_path

import pytest

from kcr.api.meta import Key
from kcr_devcluster.generators.credentials import ServiceAccountLogin, issue_kubeconfig
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve, Start
from tests.kit.charts import NEEDS_HELM, documents, of_kind
from tests.kit.documents import ROOT, blocks
from tools.helm import find_helm

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

# The end of the spec and of its docstring, and what a reader adds to both.
IMAGE, ADDED = '    image: str = "python:3"\n', '    language: str = "en"\n'
ABOUT_IMAGE, ABOUT_ADDED = "; it has Python.\n", "        language: The language of the page.\n"


def run(folder: Path, environment: Mapping[str, str], command: str) -> str:
    """Run a command of the repository's environment in a folder, and return what it printed."""
    program, *arguments = shlex.split(command)
    path = Path(sys.executable).with_name(program)
    done = subprocess.run([path, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(chart: Path, namespace: str) -> str:
    """Return what helm makes of a chart, or why it does not."""
    command = [str(find_helm()), "template", "mine", str(chart), "--namespace", namespace]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


def test_new_project_is_green_under_any_name(
    pytester: pytest.Pytester, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    run(tmp_path, environment, "kcr init coffee-shop --group coffee.example.org")
    folder = tmp_path / "coffee-shop"
    # In this process: another one would import everything again. What takes seconds, the example does, which has the
    # same tests, and `make soak` below.
    options = ("-q", "-p", "no:cacheprovider", "-k", "not survives and not ends")
    pytester.runpytest_inprocess(*options, str(folder)).assert_outcomes(passed=8, deselected=2)
    run(folder, environment, "kcr crd generate coffee_shop.api -o manifests --check")


@pytest.mark.soak
def test_new_project_with_webhooks_is_green(tmp_path: Path, environment: Mapping[str, str]) -> None:
    run(tmp_path, environment, "kcr init coffee-shop --group coffee.example.org --webhook")
    folder = tmp_path / "coffee-shop"
    assert " passed" in run(folder, environment, "pytest -q -p no:cacheprovider")
    chart = folder / "chart" / "templates"
    before = {path.name: path.read_text(encoding="utf-8") for path in chart.iterdir()}
    commands = [block.text.replace("\\\n", "") for block in blocks(folder / "README.md")]
    for command in (line for text in commands for line in text.splitlines() if " generate " in line):
        run(folder, environment, command + (" --check" if " crd " in command else ""))
    assert {path.name: path.read_text(encoding="utf-8") for path in chart.iterdir()} == before


@pytest.mark.soak
@NEEDS_KUBECTL
@pytest.mark.asyncio
async def test_webhooks_of_a_new_project_serve_kubectl(
    tmp_path: Path, environment: Mapping[str, str], kcr: Start
) -> None:
    run(tmp_path, environment, "kcr init shop --webhook")
    folder = tmp_path / "shop"
    dev = ("dev", "--controllers", "shop.webhook:setup", "-f", "manifests", "--runtime", "simulated")
    async with kcr(*dev, folder=folder) as running:
        kubectl = Kubectl(folder / await running.kubeconfig(), environment)
        await kubectl("wait --for=condition=Ready shop/hello --timeout=60s")
        shop = (folder / "manifests" / "shop.yaml").read_text().replace("name: hello", "name: other")
        refused = await kubectl("apply -f -", typed=shop, code=1)
        assert refused == 'The Shop "other" is invalid: spec.title: hello has this title: choose another one\n'
        shop = shop.replace("A greeting", "Other").replace("replicas: 2", "replicas: 0")
        warned = await kubectl("apply -f -", typed=shop)
        assert "Warning: spec.replicas is 0: no pod serves the page" in warned
        older = "get shop.v1beta1.example.dev/hello --output=jsonpath={.spec.page}"
        assert "<h1>Hello world!</h1>" in await kubectl(older)


@pytest.mark.soak
@NEEDS_HELM
@NEEDS_KUBECTL
@pytest.mark.asyncio
async def test_chart_of_a_new_project_is_accepted_and_its_program_runs(
    tmp_path: Path, environment: Mapping[str, str], serve: Serve, kcr: Start
) -> None:
    run(tmp_path, environment, "kcr init shop --webhook")
    project, own = tmp_path / "shop", tmp_path / "own.kubeconfig"
    assert "install it in the namespace shop: the webhook configurations name it" in rendered(project / "chart", "team")
    manifests = rendered(project / "chart", "shop")
    (program,) = (one["spec"]["template"]["spec"] for one in of_kind(documents(manifests), "Deployment"))
    container = program["containers"][0]
    assert container["command"] == ["python", "-m", "shop.webhook"]
    # Outside of a pod: a port that is free, and the namespace by name.
    arguments = [re.sub(r"=:\d+$", "=127.0.0.1:0", argument) for argument in container["args"]]
    arguments += ["--webhook-port=0", "--webhook-service-namespace=shop", "--leader-elect-resource-namespace=shop"]
    async with serve(runtime="simulated", authorization="rbac") as kubeconfig:
        kubectl = Kubectl(kubeconfig, environment)
        await kubectl("create namespace shop")
        await kubectl("label namespace shop pod-security.kubernetes.io/enforce=restricted")
        applied = await kubectl("apply --validate=strict -f -", typed=manifests)
        assert applied.count(" created\n") == len(documents(manifests))
        await kubectl("rollout status deployment/shop --namespace shop --timeout=60s")
        login = ServiceAccountLogin(Key("shop", program["serviceAccountName"]), 3600)
        own.write_text(await issue_kubeconfig(login, str(kubeconfig)))
        places = {"KUBECONFIG": str(own), "PYTHONPATH": str(project)}
        async with kcr(*arguments, program="shop/webhook.py", folder=project, **places) as running:
            await running.ready()


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The Python of an environment with all that is installed here but kcr, so that no index is asked for the rest."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    here, there = (Path(get_path("purelib", vars={"base": str(base)})) for base in (sys.prefix, tmp_path / "venv"))
    for entry in here.iterdir():
        if not entry.name.startswith(("kcr", "__editable__", "__pycache__")):
            (there / entry.name).symlink_to(entry)
    return tmp_path / "venv" / "bin" / "python"


def pips() -> list[Path]:
    """Return the pip that each supported Python of this machine brings to new environments."""
    show = (
        "import ensurepip, pathlib, sys; sys.version_info < (3, 11) or "
        "print(*pathlib.Path(ensurepip.__file__).parent.glob('_bundled/pip-*.whl'))"
    )
    named = [path for minor in range(11, 15) if (path := shutil.which(f"python3.{minor}"))]
    pythons: list[str | Path] = [sys.executable, *named, *sorted(Path(sys.base_prefix).parent.glob("3.*/bin/python3"))]
    shown = [subprocess.run([one, "-c", show], capture_output=True, text=True, check=False) for one in pythons]
    wheels = {Path(wheel).name: Path(wheel) for done in shown for wheel in done.stdout.split()}
    return [wheel for _, wheel in sorted(wheels.items())]


@pytest.mark.soak
@pytest.mark.parametrize("option", [pytest.param("--webhook", id="webhook"), pytest.param("", id="plain")])
def test_requirements_are_found_by_the_pip_of_each_python(
    tmp_path: Path, environment: Mapping[str, str], bare: Path, option: str
) -> None:
    run(tmp_path, environment, f"kcr init coffee-shop {option}")
    found = pips()
    assert found
    for pip in found:
        install = (
            f"python {pip}/pip --python {bare} install --quiet --no-index --no-build-isolation --dry-run -e '.[test]'"
        )
        run(tmp_path / "coffee-shop", environment, install)


@pytest.mark.soak
def test_project_installs_where_nothing_has_kcr(tmp_path: Path, environment: Mapping[str, str], bare: Path) -> None:
    run(tmp_path, environment, "kcr init coffee-shop")
    install = f"python -m pip --python {bare} install --quiet --no-index --no-build-isolation -e '.[test]'"
    run(tmp_path / "coffee-shop", environment, install)
    show = [str(bare), "-I", "-c", "import kcr; print(kcr.__file__)"]
    found = subprocess.run(show, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.startswith(str(tmp_path / "venv"))


@pytest.mark.soak
@NEEDS_KUBECTL
@pytest.mark.asyncio
async def test_way_of_the_readmes_leads_to_a_website(
    tmp_path: Path, environment: Mapping[str, str], kcr: Start
) -> None:
    (init,) = re.findall(r"`\.venv/bin/(kcr init [^`]+)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    run(tmp_path, environment, init)
    folder = tmp_path / "website"
    kind = folder / "website" / "api.py"
    before = kind.read_text(encoding="utf-8")
    assert before.count(IMAGE) == before.count(ABOUT_IMAGE) == 1
    after = before.replace(IMAGE, IMAGE + ADDED).replace(ABOUT_IMAGE, ABOUT_IMAGE + ABOUT_ADDED)
    kind.write_text(after, encoding="utf-8")
    (_install,), (test,), (dev,), use, (generate,) = (block.text.splitlines() for block in blocks(folder / "README.md"))
    run(folder, environment, generate)
    assert " passed" in run(folder, environment, test)
    async with kcr(*shlex.split(dev)[1:], folder=folder) as running:
        kubectl = Kubectl(folder / await running.kubeconfig(), environment)
        listed = [await kubectl(command.removeprefix("kubectl ")) for command in use[1:-1]][2]
        assert "website.example.dev/hello   2          2" in listed
        explained = await kubectl("explain website.spec.language")
        assert re.search(r"FIELD: language <string>\s+DESCRIPTION:\s+The language of the page\.", explained)
        await kubectl("wait --for=jsonpath={.status.ready}=3 website/hello --timeout=60s")
        port = None
        while port is None:
            port = re.search(r"port (\d+)", await kubectl("logs deployment/hello"))
        assert await asyncio.to_thread(read, f"http://127.0.0.1:{port[1]}/") == "<h1>Hello world!</h1>"
        refused = await kubectl('patch website hello --type=merge -p {"spec":{"replicas":101}}', code=1)
        assert "spec.replicas in body should be less than or equal to 100" in refused
        await kubectl(use[-1].removeprefix("kubectl "))
        await kubectl("wait --for=delete deployment/hello --timeout=60s")
        assert await kubectl("get configmap websites --output=jsonpath={.data}") == ""


def read(url: str) -> str:
    """Return the page at an address."""
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())
