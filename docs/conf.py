"""How the documentation is built: ``make docs``. A warning of Sphinx is an error there."""

import re
import shutil
from importlib.metadata import metadata
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.writers.text import TextTranslator

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


def setup(app: Sphinx) -> None:
    """Add what machines read to the built pages."""
    app.connect("build-finished", add_markdown)


def add_markdown(app: Sphinx, error: Exception | None) -> None:
    """
    Put each page as Markdown beside its HTML, and their titles and questions into ``llms.txt``.

    Pages that are made from docstrings are in plain text.
    """
    if error is not None:
        return
    source, built, lines = Path(app.srcdir), Path(app.outdir), []
    for name in sorted(app.env.found_docs):
        text = (source / f"{name}.md").read_text()
        if "{eval-rst}" in text:
            translator = TextTranslator(app.env.get_and_resolve_doctree(name, app.builder), app.builder)
            translator.document.walkabout(translator)
            text = translator.body
        elif included := re.match(r"```{include} (\S+)", text):
            text = (source / included[1]).read_text().replace("](docs/", "](")
        (built / f"{name}.md").write_text(text)
        question = re.match(r"# .*\n\n((?:[^?.|\n]|\n(?!\n))+\?)", text)
        about = f": {' '.join(question[1].split())}" if question else ""
        lines.append(f"- [{app.env.titles[name].astext()}]({name}.md){about}")
    shutil.copytree(source / "examples", built / "examples", dirs_exist_ok=True)
    summary = metadata(project)["Summary"]
    (built / "llms.txt").write_text("\n".join((f"# {project}\n\n> {summary}\n\n## Pages\n", *lines, "")))
