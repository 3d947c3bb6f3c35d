"""The documentation site: `python -m sphinx -W --keep-going -n -c docs -b html . docs/_build/html`.

The sources are the files of the repository where they lie, so that a link between two of them works
on a forge and in the site alike, and nothing is copied.
"""

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "pyro_gcm"
author = "The pyro_gcm authors"
copyright = author
release = importlib.metadata.version("pyro-gcm")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "reference",
    "names_as_links",
    "mathml",
    "included_links",
    "llms_txt",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "notebooks/*",
    "reproduce/REPORT.md",
    "reproduce/report/*",
    "reproduce/BENCHMARKS.md",
    "pyro_gcm/data/datasheets.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
# Folders that are not entered; those in which an environment or a build may lie are large.
exclude_patterns = [
    ".*",
    "venv",
    "docs/_build",
    "docs/_ext",
    "docs/_root",
    "docs/_static",
    "reproduce/results",
    "tests",
    "**/__pycache__",
    "**/.ipynb_checkpoints",
]

# Pages
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks show the outputs that are committed; CI executes them
nb_merge_streams = True

# Docstrings: `x` is code, and a link where it is a public name.
default_role = "code"
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88
add_module_names = False
nitpick_ignore_regex = [
    # Types of other packages, whose inventories a build without a network does not have.
    ("py:.*", r"(?!pyro_gcm).*"),
]

# Site: everything it needs is in it.
html_theme = "furo"
html_title = f"pyro_gcm {release}"
html_static_path = ["_static"]
html_extra_path = ["_root"]  # the front page is docs/index.html
html_css_files = ["site.css"]
html_domain_indices = False  # the modules are pages of the reference
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # it would have to fetch pages, which file:// refuses
html_theme_options = {"navigation_with_keys": True}
