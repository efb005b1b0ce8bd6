"""Versions that are tried, and tables of the documentation that tests prove: versions and guarantees."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.unit.documents import PAGES, ROOT, prose

AUTO = '`acknowledge="auto"`: a sensor without `trigger_dag_id` returns messages'
EVENTS = "`WorkflowInboxEventTrigger`, also as `MessageQueueTrigger` with the scheme `workflow-inbox`"
QUEUE = "`queue` of watchers: the queue of triggerers"
PER_MESSAGE = "`per_message`: an asset event, and a DAG run, for each message"
FEATURES = {
    "the task state store": AUTO,
    "the acknowledging of asset events": EVENTS,
    "the event trigger": EVENTS,
    "queues of triggerers": QUEUE,
    "queues of triggerers for watchers": QUEUE,
    "a DAG run for each asset event": PER_MESSAGE,
    "asset events that are not batched": PER_MESSAGE,
    "an answer that tells why a run is rejected": "logs and errors say why Airflow rejected a run",
    "a check that finds import errors and stale DAGs": (
        "a target with import errors, or whose file is gone, fails the try with its first message"
    ),
    "a DAG's result": "what the function of `@inbox_dag` returns is the result of its DAG run",
    "runs in the trace of their message": (
        "a started run is a part of its task's trace, or with `trace_context` of the sender's"
    ),
    "a type of its own for runs that tasks start,": (
        "a run of a user whose id and note imitate those of a message is not taken for its run"
    ),
    "the state store of an asset": (
        "a watcher knows its last [alarm](alerting.md#an-inbox-in-trouble) after a restart of the triggerer"
    ),
    "the run types that a DAG allows": "`allowed_run_types` of a target are checked",
}
"""What a user gains, by what a mark says that Airflow has since a version."""
OF_TESTS = {
    "all examples, and the lines of Airflow's own that are known here",
    "leases and acknowledgements in this order",
    "places in which Airflow keeps things",
    "the page that is visited here",
    "the set of reserved keys",
    "the task state store, which the traced tasks use,",
    "what some modules import",
}
"""Marks of what only a test needs."""
SUPPORTED = [
    tuple(map(int, path.stem.removeprefix("airflow-").split(".")))
    for path in sorted((ROOT / "constraints").glob("airflow-*.txt"))
]


def marks() -> set[tuple[tuple[int, int], str]]:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    calls = [
        node
        for text in texts
        if "mark.since(" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.since"
    ]
    arguments = [[ast.literal_eval(argument) for argument in call.args] for call in calls]
    return {((major, minor), feature) for major, minor, feature in arguments}


def table() -> str:
    rows = sorted({(since, FEATURES[feature]) for since, feature in marks() if feature not in OF_TESTS})
    titles = ["feature", *(f"{major}.{minor}" for major, minor in SUPPORTED)]
    cells = [
        [feature, *("yes" if version >= since else "no" for version in SUPPORTED)] for since, feature in rows
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (titles, ["---"] * len(titles), *cells))


def test_each_mark_is_of_a_feature_or_of_a_test() -> None:
    assert {feature for _, feature in marks()} == FEATURES.keys() | OF_TESTS


def test_the_page_has_the_table_that_the_marks_make() -> None:
    assert table() in PAGES["docs/versions.md"], f"The table of docs/versions.md must be:\n{table()}"


IN_EVERY_VERSION = {"@inbox_dag", "trigger_dag_id", "MessageQueueTrigger", "queue"}
"""Names in the table that every version of Airflow has. A task has a ``queue`` too."""


def names_of_newer_versions() -> dict[str, str]:
    """The arguments and classes that the table names, and the first version of Airflow that has them."""
    return {
        name: ".".join(map(str, since))
        for since, feature in marks()
        if feature not in OF_TESTS
        for name in re.findall(r"`([^`]+)`", FEATURES[feature])
        if name not in IN_EVERY_VERSION
    }


def sections(page: str) -> list[list[str]]:
    """The paragraphs, items of lists and rows of tables below each heading of a page, in one line each."""
    parts = re.split(r"^#+ .*$", prose(page), flags=re.MULTILINE)
    texts = [re.split(r"\n\s*\n|\n(?=- |\d+\. |\|)", part) for part in parts]
    return [[" ".join(text.split()) for text in section] for section in texts]


def test_a_name_that_needs_a_newer_airflow_has_its_version_where_it_is_named() -> None:
    names = names_of_newer_versions()
    unmarked = [
        (page, text)
        for page in PAGES
        if page not in ("CHANGELOG.md", "docs/versions.md")
        for section in sections(page)
        for name, version in names.items()
        for text in [text for text in section if re.search(rf"\b{re.escape(name)}(?!\w)", text)][:1]
        if f"Airflow {version}" not in text
    ]

    assert {"trace_context", "per_message", "WorkflowInboxEventTrigger", 'acknowledge="auto"'} < names.keys()
    assert unmarked == [], (
        "The first paragraph below a heading that names it says, for example, (Airflow 3.4)."
    )


MAKEFILE = (ROOT / "Makefile").read_text()
PAIRS = re.findall(r"\S+:\S+", re.findall(r"^MATRIX \?= (.*)$", MAKEFILE, re.MULTILINE)[0])
MAIN_TESTS = re.findall(r"^MATRIX_E2E := (.*)$", MAKEFILE, re.MULTILINE)[0]


def test_each_pair_has_pins_and_each_python_that_is_claimed_is_tried() -> None:
    airflows, pythons = zip(*(pair.split(":") for pair in PAIRS), strict=True)
    classified = (ROOT / "pyproject.toml").read_text()

    assert {tuple(map(int, airflow.split("."))) for airflow in airflows} == set(SUPPORTED)
    assert set(pythons) == set(re.findall(r"Programming Language :: Python :: (3\.\d+)", classified))
    assert all((ROOT / test).exists() for test in MAIN_TESTS.split())


def test_the_readme_lists_what_is_tried() -> None:
    rows = re.findall(r"^\| (3\.\d+) \| (.+) \|$", PAGES["README.md"], re.MULTILINE)

    assert [f"{airflow}:{python}" for airflow, pythons in rows for python in pythons.split(", ")] == PAIRS


@pytest.mark.parametrize("page", ["README.md", "docs/versions.md", "docs/evidence.md"])
def test_a_python_that_was_not_tried_is_said_to_be(page: str) -> None:
    assert "3.14" not in {pair.split(":")[1] for pair in PAIRS}
    assert "Python 3.14 was not tried" in " ".join(PAGES[page].split())


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GROUPS = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
BOUNDS = [Requirement(line) for lines in GROUPS.values() for line in lines if ">=" in line]
"""What the package, and each of its extras, needs at least."""


def pins(stem: str) -> dict[str, str]:
    lines = (ROOT / "constraints" / f"{stem}.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines)


def test_what_two_extras_need_has_one_lower_bound() -> None:
    bounds: dict[str, set[str]] = {}
    for bound in BOUNDS:
        bounds.setdefault(bound.name, set()).add(str(bound.specifier))
    assert {"pydantic", "starlette", "uvicorn"} <= bounds.keys()
    assert {name: specifiers for name, specifiers in bounds.items() if len(specifiers) > 1} == {}


def test_the_lower_bounds_are_the_versions_with_which_every_module_is_imported() -> None:
    lowest = pins("lowest")
    tried = [bound for bound in BOUNDS if bound.name in lowest]
    assert {bound.name for bound in BOUNDS} == {bound.name for bound in tried}
    differing = [
        str(bound)
        for bound in tried
        for declared in bound.specifier
        if Version(declared.version) != Version(lowest[bound.name])
    ]
    assert differing == []


@pytest.mark.parametrize("path", sorted((ROOT / "constraints").glob("*-*.txt")), ids=lambda path: path.stem)
def test_the_pins_are_within_the_bounds(path: Path) -> None:
    pinned = pins(path.stem)
    bounds = [bound for bound in BOUNDS if bound.name in pinned]
    assert len(bounds) > 20
    below = [
        f"{bound}, but {pinned[bound.name]}"
        for bound in bounds
        if not bound.specifier.contains(pinned[bound.name], prereleases=True)
    ]
    assert below == []


SECTION = (ROOT / "docs/promise.md").read_text().partition("## How each guarantee is proved\n")[2]
ROWS = re.findall(r"^\| (.+) \| (.+) \|$", SECTION, re.MULTILINE)[1:]


def test_every_guarantee_names_what_proves_it() -> None:
    assert len(ROWS) > 20
    assert not [guarantee for guarantee, proof in ROWS if not re.search(r"`(make|test_)", proof)]


def test_every_test_that_proves_a_guarantee_exists() -> None:
    names = {name for _, proof in ROWS for name in re.findall(r"`(test_\w+)`", proof)}
    text = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))

    assert names - set(re.findall(r"^(?:async )?def (test_\w+)\(", text, re.MULTILINE)) == set()


@pytest.mark.parametrize(
    ("pattern", "files", "definition"),
    [
        (r"`make ([a-z-]+)`", "Makefile", r"^([a-z-]+):.* ## "),
        (r"rule (\d+)", "tests/simulation/*.py", r"^(\d+)\. "),
    ],
)
def test_every_command_and_rule_that_proves_a_guarantee_exists(
    pattern: str, files: str, definition: str
) -> None:
    names = {name for _, proof in ROWS for name in re.findall(pattern, proof)}

    text = "\n".join(path.read_text() for path in ROOT.glob(files))
    assert names
    assert names <= set(re.findall(definition, text, re.MULTILINE))
