"""How Sphinx builds the site: Markdown pages, the API from docstrings, and the examples, which run."""

import re

from sphinx_gallery.sorting import ExplicitOrder

from plait import __version__

EXAMPLES = (
    "notebook parity three_hospitals partner_lift rounds alignment lasso_path quantiles custom_loss "
    "custom_transformer privacy_against_accuracy attacks"
)  # in the order in which a newcomer reads them

project = "plait"
author = "the authors of plait"
release = version = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_all_links_external = False
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.md5"]
suppress_warnings = ["config.cache"]  # the gallery's settings hold a function, which cannot be kept between builds
autosummary_generate = True
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_score_request, set_predict_request"
}  # scikit-learn's
autodoc_typehints = "none"  # the docstrings have the types, in words
numpydoc_show_class_members = False
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "plot_gallery": "True",
    "write_computation_times": False,
    "within_subsection_order": ExplicitOrder([*(f"plot_{name}.py" for name in EXAMPLES.split()), "*"]),
}
html_sidebars = {page: [] for page in ("start", "changelog", "contributing")}  # pages without pages below them
html_theme = "pydata_sphinx_theme"
html_title = f"plait {__version__}"
html_context = {"default_mode": "auto"}
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": True,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sphinx = False
copyright = "the authors of plait, Apache-2.0"
templates_path = ["_templates"]


def _escape_bars(app, what, name, obj, options, lines):
    """Docstrings write |x| for a norm; reStructuredText would take it for a substitution."""
    literal = False
    for i, line in enumerate(lines):
        literal = literal and (not line.strip() or line.startswith(" "))
        if not literal:
            lines[i] = line.replace("|", "\\|")
        literal = literal or line.rstrip().endswith("::")


def _link_within_the_site(app, docname, source):
    """Pages link to files beside docs/; on the site these are pages, too."""
    text = re.sub(r"\]\(((?:\.\./)*)\.\./README\.md", r"](\1index.md", source[0])
    source[0] = re.sub(
        r"\]\(((?:\.\./)*)\.\./(CONTRIBUTING|CHANGELOG)\.md", lambda m: f"]({m[1]}{m[2].lower()}.md", text
    )


def _link_from_included(app, relative_path, parent_docname, content):
    """The same for files that a page includes."""
    content[0] = content[0].replace("](CHANGELOG.md", "](changelog.md").replace("](README.md", "](index.md")


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _escape_bars)
    app.connect("source-read", _link_within_the_site)
    app.connect("include-read", _link_from_included)
