"""The configuration of Sphinx for the staged documents."""

project = "kcr"
author = "The kcr authors"
project_copyright = "The kcr authors, Apache-2.0"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
# Headings have the anchors that code hosts give them, so that links are the same here and there.
myst_heading_anchors = 6
myst_links_external_new_tab = False
# A diagram or a manifest whose language has no lexer is shown as it is.
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "text"
html_theme = "furo"
html_title = "kcr"
# llms.txt links to them.
html_copy_source = True
html_show_sourcelink = False
html_show_sphinx = False
nitpicky = True
html_static_path = ["static"]
html_css_files = ["tables.css"]
# The usual parts, and the menu of versions.
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html", "sidebar/search.html", "versions.html", "sidebar/scroll-start.html",
        "sidebar/navigation.html", "sidebar/scroll-end.html",
    ],
}  # fmt: skip
