"""How the documentation is built: ``make docs``. A warning of Sphinx is an error there."""

from airflow_provider_workflow import __version__

project = "airflow-provider-workflow"
author = "the airflow-provider-workflow authors"
copyright = author
version = release = __version__

# The last one adds a button to each block of code, which copies it.
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["examples"]
html_theme = "furo"
html_title = f"{project} {__version__}"
html_show_copyright = False
html_copy_source = False

myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
# Names of Python, Airflow and pytest: their own pages are elsewhere, and nothing is fetched to build these.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!airflow_provider_workflow).*"),
    # Type variables, and the emulator's inside.
    (r"py:class", r"airflow_provider_workflow\.(hooks\.workflow\.T|types\.(Payload|Entry))"),
    (r"py:class", r"airflow_provider_workflow\.emulator\.rules\..*"),
]
