"""Build the documentation as a site, and check it: `make docs`.

The site is `dist/site`. It needs no server and nothing from elsewhere: styles, scripts and the search are in it. A
document that is in no table of contents, a link that leads nowhere and an asset of another host end the build.

Sphinx, with MyST and the theme furo: MyST reads Markdown as code hosts do (CommonMark, the anchors of headings), so
that the documents stay as they are, and the search and the dark and light theme are files of the site.
"""

import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

from tools.site.staging import ROOT, overview, stage

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


def build(site: Path) -> None:
    """Build the site into a folder, whose contents are replaced.

    Raises:
        RuntimeError: Sphinx warns, or `faults` finds some; the message has them all.
    """
    with TemporaryDirectory() as folder:
        stage(Path(folder))
        command = [sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going", "--quiet"]
        made = Path(folder) / ".site"
        done = subprocess.run(
            [*command, "--jobs", "auto", "--conf-dir", Path(__file__).parent, folder, made],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr.replace(folder, "").strip())
        shutil.rmtree(made / ".doctrees", ignore_errors=True)
        (made / "llms.txt").write_text(overview(), encoding="utf-8")
        if found := faults(made):
            raise RuntimeError("\n".join(found))
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(made, site)


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


def main() -> int:
    """Build the site, and return the exit code."""
    try:
        build(SITE)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"docs: open {SITE / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
