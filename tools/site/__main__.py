"""Build the documentation of a version as a site, and check it: `make docs`, or `make docs VERSION=dev`.

The site is `dist/site`, with a folder for each version that was built into it, and `latest`. It needs no server and
nothing from elsewhere: styles, scripts and the search are in it. A document that is in no table of contents, a link
that leads nowhere, an asset of another host and a picture that is older than what it shows end the build.

Sphinx, with MyST and the theme furo: MyST reads Markdown as code hosts do (CommonMark, the anchors of headings), so
that the documents stay as they are, and the search and the dark and light theme are files of the site. mike, which
keeps versions apart for MkDocs, commits them to a branch; here they are folders (`tools.site.versions`).
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

from kcr.app.logs import configure_logs
from tools.pictures import files
from tools.site.staging import ROOT, overview, stage
from tools.site.versions import LATEST, connect

SITE = ROOT / "dist" / "site"


class _Page(HTMLParser):
    """The anchors, links and assets of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.assets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.anchors.add(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        self.assets += [str(given[name]) for name in ("src", "href") if given.get(name) and tag in _ASSETS]


_ASSETS = ("script", "link", "img", "source", "iframe")


def build(site: Path, version: str) -> None:
    """Build the site of a version into a folder, beside the other versions in it.

    Args:
        site: The folder of all versions.
        version: The name of this one, which is replaced if it is there.

    Raises:
        RuntimeError: Sphinx warns, or `faults` finds some; the message has them all. Or the version has no valid name.
    """
    if not re.fullmatch(r"\w[\w.+-]*", version) or version == LATEST:
        raise RuntimeError(f"{version!r} is no name of a version")
    with TemporaryDirectory() as folder:
        stage(Path(folder))
        command = [sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going", "--quiet"]
        made = Path(folder) / ".site"
        built = made / version
        command += ["--jobs", "auto", "--define", f"release={version}", "--conf-dir", str(Path(__file__).parent)]
        done = subprocess.run(
            [*command, folder, built],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr.replace(folder, "").strip())
        shutil.rmtree(built / ".doctrees", ignore_errors=True)
        (built / "llms.txt").write_text(overview(), encoding="utf-8")
        connect(made)
        if found := faults(made):
            raise RuntimeError("\n".join(found))
        shutil.rmtree(site / version, ignore_errors=True)
        shutil.copytree(built, site / version)
        connect(site)


def faults(site: Path) -> list[str]:
    """Return the links of a site that lead nowhere, and the assets that it takes from another host."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in sorted(pages.items()):
        for asset in page.assets:
            if urlsplit(asset).netloc:
                found.append(f"{path.relative_to(site)}: {asset} is of another host")
        for link in [*page.links, *page.assets]:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            place = (path.parent / unquote(target.path)).resolve() if target.path else path
            anchor = unquote(target.fragment)
            if not place.is_file() or (anchor and place in pages and anchor not in pages[place].anchors):
                found.append(f"{path.relative_to(site)}: {link} leads nowhere")
    return found


def main(version: str) -> int:
    """Build the site of a version, and return the exit code."""
    # The controllers warn of what the pictures show.
    configure_logs("plain", "critical")
    try:
        if stale := files.faults():
            raise RuntimeError("\n".join(stale))
        build(SITE, version)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"docs: open {SITE / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
