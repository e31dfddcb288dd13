"""The documentation site: ``make docs`` builds it into ``build/docs``, with warnings as errors and no network."""

from __future__ import annotations

import abiscan

project = "abiscan"
author = "the abiscan developers"
copyright = author  # noqa: A001 - the name that Sphinx reads
version = release = abiscan.__version__

extensions = ["myst_parser"]
nitpicky = True
myst_heading_anchors = 3

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_title = f"abiscan {release}"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
