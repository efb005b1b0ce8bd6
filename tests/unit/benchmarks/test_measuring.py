"""What the benchmarks measure, and what their rows say; nothing is started for these tests."""

from __future__ import annotations

import ast
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from importlib import import_module
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests

from benchmarks import __main__ as command
from benchmarks import latency, meter, parse, stage, waiting, watchers
from benchmarks.meter import MACHINE, Meter, Window, cpu_of
from benchmarks.peers import peers, ways
from benchmarks.peers.trial import Counts
from benchmarks.plots import PLOTS, points_of
from benchmarks.results import Figure, Point, Row, alone, compared, write_json
from benchmarks.scale import finished, neighbor, runs
from benchmarks.scale import latency as scale_latency
from benchmarks.scale import watchers as scale_watchers
from benchmarks.throughput import Work
from benchmarks.timed import AT, TimedNoticeTrigger
from benchmarks.watchers import LISTENING, POLLING, POLLS, TRIGGERS, Measurement
from tests.unit.workbench import INBOX, Workbench

MODULES = {name: f"benchmarks.{name.replace('-', '.')}" for name in (*command.NAMES, *command.PARTS)}
MODULES[command.PEERS] = "benchmarks.peers.peers"


def medians(rows: Iterable[Row]) -> dict[str, tuple[float, str]]:
    """What each row says of ours, with its unit."""
    return {row.what: (row.ours.median, row.unit) for row in rows}


# The command line


@pytest.mark.parametrize("name", MODULES)
def test_every_name_of_the_command_line_is_a_benchmark(name: str) -> None:
    assert callable(import_module(MODULES[name]).run)


def test_what_is_no_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        command.main(["--only", "speed"])
    assert exit_info.value.code == 2
    assert "'speed'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("peers", {"messages": 9}),
        ("parse", {}),
    ],
)
def test_a_benchmark_gets_the_numbers_of_the_command_line_that_are_for_it(
    name: str, numbers: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, object]] = []
    monkeypatch.setattr(f"{MODULES[name]}.run", lambda **arguments: calls.append(arguments) or [])  # type: ignore[func-returns-value]
    options = command.parse(["--quick", "--sizes", "7", "--sizes", "8", "--messages", "9"])
    command.run(name, options)
    assert calls == [{"quick": True, **numbers}]


# Rows as JSON and as points of plots


def test_json_has_all_of_a_row_its_benchmark_and_what_it_ran_on(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    point = Point("scale-runs", "one task", 2)
    ratio = compared("calls", "1/s", [20.0, 30.0], "bare", [10.0, 10.0], point, at_least=0.8)
    write_json({"client": [ratio], "parse": [alone("time", "ms", [1.0])]}, path, quick=True)

    document = json.loads(path.read_text())
    first, second = document.pop("rows")

    assert set(document) == {"at", "python", "airflow", "cores", "quick"}
    assert document["quick"] is True
    assert first == {
        "benchmark": "client",
        "what": "calls",
        "unit": "1/s",
        "ours": {"median": 25.0, "low": 22.5, "high": 27.5, "n": 2},
        "beside": "bare",
        "theirs": {"median": 10.0, "low": 10.0, "high": 10.0, "n": 2},
        "ratio": {"median": 2.5, "low": 2.25, "high": 2.75, "n": 2},
        "point": {"plot": "scale-runs", "curve": "one task", "x": 2},
        "at_least": 0.8,
        "at_most": None,
    }
    assert (second["benchmark"], second["beside"], second["theirs"], second["ratio"]) == (
        "parse",
        "",
        None,
        None,
    )


def test_the_points_of_a_plot_are_its_own_by_curve_in_the_order_of_the_rows() -> None:
    places = [("p", "b", "ours"), ("q", "b", "ours"), ("p", "a", "floor"), ("p", "b", "floor")]
    rows = [alone("it", "s", [number], Point(*place)) for number, place in enumerate(places)]
    points = points_of([*rows, alone("nowhere", "s", [9.0])], "p")
    assert [(curve, x, figure.median) for curve, xs in points.items() for x, figure in xs.items()] == [
        ("b", "ours", 0),
        ("b", "floor", 3),
        ("a", "floor", 2),
    ]


def test_every_plot_is_that_of_a_benchmark_and_has_a_title() -> None:
    plots = [getattr(import_module(module), "PLOT", None) for module in MODULES.values()]
    assert sorted(filter(None, plots)) == sorted(PLOTS)


# Meters


def test_a_share_is_percent_of_one_core_and_the_machine_has_all_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("psutil.cpu_count", lambda: 4)
    window = Window(10.0, {"a": 5.0, MACHINE: 20.0})
    assert (window.share("a"), window.machine) == (50, 50)


def test_a_window_has_what_counters_rose_by_since_the_meter_was_made() -> None:
    values = iter((1.0, 4.0))
    window = Meter({"a": lambda: next(values)}).window()
    assert window.used["a"] == 3
    assert set(window.used) == {"a", MACHINE}
    assert 0 <= window.used[MACHINE] < 60


def test_a_process_that_has_ended_used_nothing() -> None:
    me, unused_pid = os.getpid(), 2**22 + 1
    assert cpu_of(lambda: [unused_pid])() == 0
    alone_seconds = cpu_of(lambda: [me])()
    assert 0 < alone_seconds <= cpu_of(lambda: [me, unused_pid])() < alone_seconds + 1


# The machinery


class FakeAPI:
    """
    Airflow's API with the runs of one DAG.

    :param moments: when each was queued, as Airflow writes it.
    """

    def __init__(self, *moments: str) -> None:
        self.moments = list(moments)

    def request(self, method: str, path: str, params: dict[str, Any]) -> dict[str, Any]:
        runs = [{"dag_run_id": f"run_{number}", "queued_at": at} for number, at in enumerate(self.moments)]
        if params["order_by"] == "-id":
            runs.reverse()
        return {"dag_runs": runs[: params["limit"]]}

    def wait_until(
        self, condition: Callable[[], Any], seconds: float, description: str, interval: float = 0.0
    ) -> Any:
        """Asks five times."""
        for _ in range(5):
            if answer := condition():
                return answer
        raise TimeoutError(description)


def airflow_with(**parts: Any) -> Any:
    """What a benchmark uses of an Airflow."""
    return SimpleNamespace(api=FakeAPI(), **parts)


def test_a_service_that_does_not_answer_in_time_is_asked_again() -> None:
    answers: list[bool | Exception] = [
        requests.ReadTimeout("no answer"),
        False,
        requests.ConnectionError("no answer"),
        True,
    ]

    def done() -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    stage.wait(airflow_with(), done, 10)

    assert answers == []


def test_what_does_not_happen_in_time_shows_in_the_figures_and_ends_nothing() -> None:
    stage.wait(airflow_with(), lambda: False, 10)


def test_latency_is_from_the_put_to_the_next_run_queued() -> None:
    airflow = airflow_with()
    airflow.api.moments = ["1970-01-01T00:01:00Z"]

    def put() -> None:
        queued_at = datetime.fromtimestamp(time.time() + 100, UTC)
        airflow.api.moments.append(queued_at.isoformat().replace("+00:00", "Z"))

    assert 99 < latency.seconds_until_queued(airflow, "target", put) < 110


def test_a_message_without_a_run_ends_the_latency_benchmark() -> None:
    airflow = airflow_with()
    airflow.api.moments = ["1970-01-01T00:01:00Z"]
    with pytest.raises(TimeoutError, match="a run of target"):
        latency.seconds_until_queued(airflow, "target", lambda: None)


# Watchers


@pytest.mark.parametrize("template", [watchers.ASSETS, watchers.DECORATED], ids=["assets", "inbox_dag"])
def test_each_inbox_is_watched_in_one_dag_file(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "PER_FILE", 10)
    numbers = []
    for text in watchers.dag_files(25, LISTENING, template).values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range":
                numbers.append(range(*(ast.literal_eval(argument) for argument in node.args)))
    assert numbers == [range(10), range(10, 20), range(20, 25)]


def test_the_consumer_of_an_inbox_is_the_dag_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "PER_FILE", 10)
    files = watchers.dag_files(25, LISTENING)
    for number, name in ((0, "watched_0"), (19, "watched_10"), (24, "watched_20")):
        assert f'DAG("{watchers.consumer_of(number)}"' in files[name]


@pytest.mark.parametrize(("count", "different"), [(1, 1), (10, 10), (100, 15), (10_000, 15)])
def test_messages_are_spread_over_the_inboxes_that_there_are(count: int, different: int) -> None:
    numbers = watchers.spread(15, count)
    assert (len(numbers), len(set(numbers))) == (15, different)
    assert set(numbers) <= set(range(count))
    assert max(numbers) >= count * 0.8 - 1


def test_a_triggerer_is_measured_by_the_process_that_runs_its_triggers() -> None:
    polls = iter((10.0, 13.0))
    airflow = airflow_with(pids=lambda name: [1, os.getpid()] if name == "triggerer" else [])
    measurement = watchers.measure_triggerer(airflow, lambda: next(polls), 0)
    assert measurement.window.used[POLLS] == 3
    assert measurement.window.used[TRIGGERS] >= 0
    assert measurement.megabytes == pytest.approx(meter.resident(os.getpid()), rel=0.1)


def test_waiting_shows_each_case_and_what_polls_cost_beyond_an_idle_triggerer() -> None:
    idle = Measurement(Window(10.0, {TRIGGERS: 0.1, POLLS: 0}), 150.0, 4)
    polling = Measurement(Window(10.0, {TRIGGERS: 0.5, POLLS: 200}), 160.0, 20)
    listening = Measurement(Window(10.0, {TRIGGERS: 0.2, POLLS: 10}), 170.0, 120)
    rows = waiting.rows(
        [
            (waiting.NOTHING, idle),
            (waiting.Case("watchers, 5 s polls", 100, POLLING), polling),
            (waiting.Case("watchers, event streams", 100, LISTENING), listening),
        ]
    )
    assert medians(rows) == {
        "no triggers: share of one core": (1, "%"),
        "no triggers: memory": (150, "MB"),
        "no triggers: sockets": (4, "sockets"),
        "100 watchers, 5 s polls: share of one core": (5, "%"),
        "100 watchers, 5 s polls: memory": (160, "MB"),
        "100 watchers, 5 s polls: sockets": (20, "sockets"),
        # 0.4 s beyond the idle triggerer's 0.1 s, for 200 polls.
        "100 watchers, 5 s polls: CPU per 1000 polls": (pytest.approx(2), "s"),
        "100 watchers, event streams: share of one core": (2, "%"),
        "100 watchers, event streams: memory": (170, "MB"),
        "100 watchers, event streams: sockets": (120, "sockets"),
    }


async def test_a_timed_notice_is_ours_with_the_time_that_it_was_emitted(bench: Workbench) -> None:
    bench.put("a")
    before = time.time()
    async with aclosing(cast(Any, TimedNoticeTrigger(INBOX)).run()) as events:
        event = await anext(events)
    assert before <= event.payload.pop(AT) <= time.time()
    assert (event.payload["inbox"], event.payload["alarm"]) == (INBOX, False)


# Parts of scale


class FakeDatabase:
    """
    Answers queries.

    :param answers: by query; of a function, what it returns for the values of the query.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers

    def value(self, query: str, *values: object) -> Any:
        answer = self.answers[query]
        return answer(*values) if callable(answer) else answer

    rows = value


class FakeMeter:
    """A window of a minute, in which the triggerers used much, polled, and were blocked."""

    def __init__(self, counters: Mapping[str, object]) -> None:
        self.counters = counters

    def window(self) -> Window:
        used = dict.fromkeys(self.counters, 6.0)
        return Window(60.0, {**used, POLLS: 1000.0, MACHINE: 30.0 * (os.cpu_count() or 1)})


def fleet_of(count: int, home: Path, answers: Mapping[str, Any], **parts: Any) -> scale_watchers.Fleet:
    """Triggerers, each of which is this process."""
    service = parts.pop("service", None)
    airflow = airflow_with(home=home, pids=lambda name: [os.getpid()], **parts)
    return scale_watchers.Fleet(airflow, service, cast(Any, FakeDatabase(answers)), count)


def test_dag_files_are_written_and_shown_by_the_time_to_parse_each(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    parsed = [(1.0,), (None,), (3.0,)]
    answers = {scale_watchers.WATCHERS: 250, scale_watchers.PARSED: parsed}
    rows = fleet_of(250, tmp_path, answers).store(watchers.DECORATED, "@inbox_dag")
    assert len(list((tmp_path / "dags").iterdir())) == 3
    first, second = rows
    assert (first.what, first.unit) == ("250 inboxes, @inbox_dag: time to parse a file of 100 inboxes", "s")
    assert first.ours == Figure.of([1.0, 3.0])
    assert (second.unit, second.ours.n) == ("s", 1)


def test_waiting_triggerers_are_shown_per_1000_inboxes_with_what_they_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, processes, inbox_names = tmp_path / "log", [], []
    log.write_text(scale_watchers.BLOCKED)
    monkeypatch.setattr(scale_watchers, "APART_SECONDS", 0)
    monkeypatch.setattr(scale_watchers, "Meter", FakeMeter)
    monkeypatch.setattr(scale_watchers, "megabytes", lambda pid: 100.0)
    monkeypatch.setattr(scale_watchers, "sockets", lambda pid: 1000)
    service = SimpleNamespace(
        pid=os.getpid(),
        count=lambda operation: 2000,
        open_streams=lambda: 1990,
        put=lambda inbox, message: inbox_names.append(inbox),
    )
    answers = {
        scale_watchers.UNASSIGNED: 5,
        scale_watchers.LATE_TRIGGERERS: 1,
        scale_watchers.EVENT: lambda inbox, at: at + 0.5 if inbox == "inbox_0" else None,
    }
    fleet = fleet_of(
        2000,
        tmp_path,
        answers,
        service=service,
        logs=lambda name: log,
        start_process=lambda name, words: processes.append(name),
    )

    rows = fleet.wait(0, 0, 2)

    assert (processes, inbox_names) == (["triggerer-2"], ["inbox_0", "inbox_1000"])
    *figures, notice_row = rows
    values = {title.partition(": ")[2].partition(": ")[2]: value for title, value in medians(figures).items()}
    assert values.pop("until each inbox was polled")[1] == "s"
    assert values == {
        **{
            f"CPU of {group}, per 1000 inboxes": (pytest.approx(5), "% of a core")
            for group in (
                scale_watchers.RUNNERS,
                scale_watchers.SUPERVISORS,
                scale_watchers.POSTGRES,
                scale_watchers.SCHEDULER,
                scale_watchers.EMULATOR,
            )
        },
        f"CPU of {MACHINE}": (pytest.approx(50), "% of its cores"),
        "memory, per 1000 inboxes": (100, "MB"),
        "sockets, per 1000 inboxes": (1000, "sockets"),
        "inboxes without an event stream": (10, "inboxes"),
        "polls made, of those due": (50, "%"),
        "triggers that no triggerer runs": (5, "triggers"),
        "triggerers without a heartbeat for 30 s": (1, "triggerers"),
        "warnings of a blocked event loop before": (2, "warnings"),
        "warnings of a blocked event loop": (0, "warnings"),
    }
    # A message without an event is not left out.
    assert (notice_row.unit, notice_row.ours.n, notice_row.ours.high) == ("s", 2, inf)


def test_runs_are_shown_by_their_rate_and_the_cpu_of_each_on_the_curve_of_their_tasks() -> None:
    works = [
        (Work(100, seconds, 0.0, 0.0), Window(10.0, {runs.SERVER: 2.0, runs.POSTGRES: 1.0, MACHINE: 0.0}))
        for seconds in (2.0, 4.0)
    ]
    rate, *others = runs.rows_of(runs.Case(2, 4, slow=True), 1000, works)
    assert (rate.ours, rate.unit) == (Figure.of([50.0, 25.0]), "1/s")
    assert rate.point == Point("scale-runs", "4 tasks, 200 ms latency", 2)
    assert runs.Case(1, 1, slow=False).curve == "one task"
    values = {title.rpartition(": ")[2]: value for title, value in medians(others).items()}
    assert values == {
        "CPU of API server per DAG run": (20, "ms"),
        "CPU of PostgreSQL per DAG run": (10, "ms"),
        f"CPU of {MACHINE}": (0, "% of its cores"),
    }


LOAD = Window(60.0, {"Airflow": 6.0, MACHINE: 0.0})
REST, SENSOR = finished.WAYS[:2]


def test_finished_messages_stand_beside_runs_of_the_rest_api() -> None:
    floor = finished.Finished(REST, 3, [(30.0, 1), (45.0, 2)], LOAD)
    rate, *others = finished.rows(finished.Finished(SENSOR, 3, [(60.0, 1), (20.0, 1)], LOAD), floor)
    assert (rate.what, rate.unit) == ("sensor, 3 messages: finished per minute", "1/min")
    assert (rate.beside, rate.point) == (REST.shown, Point("scale-finished", "messages", "sensor"))
    # 2 messages within 60 s, beside 3 within 45 s.
    assert rate.theirs is not None
    assert rate.ratio is not None
    assert (rate.ours.median, rate.theirs.median, rate.ratio.median) == (2, 4, 0.5)
    assert medians(others) == {
        "sensor, 3 messages: not finished in time": (1, "messages"),
        f"sensor, 3 messages: CPU of {MACHINE}": (0, "% of its cores"),
        "sensor, 3 messages: CPU of Airflow per message": (3000, "ms"),
    }


@pytest.mark.parametrize("of_floor", [False, True])
def test_where_nothing_is_finished_the_rate_is_0_and_nothing_is_per_message(of_floor: bool) -> None:
    without_messages = finished.Finished(SENSOR, 3, [], LOAD)
    with_messages = finished.Finished(SENSOR, 3, [(60.0, 3)], LOAD)
    rate, late, *_ = rows = (
        finished.rows(with_messages, without_messages)
        if of_floor
        else finished.rows(without_messages, with_messages)
    )
    assert (rate.ours.median, late.ours.median) == ((3, 0) if of_floor else (0, 3))
    assert rate.ratio == (None if of_floor else Figure.of([0.0]))
    assert any("per message" in row.what for row in rows) is of_floor


def test_the_delay_of_a_neighbor_is_the_sum_of_its_steps_and_leaves_late_runs_out() -> None:
    late, delay, *steps = neighbor.rows_of("100 runs", [(1.0, 2.0, 4.0), (3.0, 2.0, 4.0)], probes=3)
    assert (late.ours.median, late.unit) == (1, "runs")
    assert (delay.ours, delay.unit) == (Figure.of([7.0, 9.0]), "s")
    assert delay.point == Point("scale-neighbor", "queued to first task running", "100 runs")
    assert [row.ours.median for row in steps] == [2, 2, 4]
    (only,) = neighbor.rows_of("100 runs", [], probes=3)
    assert only.ours.median == 3


def test_each_step_begins_where_the_one_before_ended() -> None:
    counts, states = itertools.chain([1], itertools.repeat(2)), iter(["running", "success"])
    took = [0.5, 0.25, 1.0, 0.5, 2.0, 0.25, 0.5]
    put_at: list[float] = []

    def moments(*_: object) -> list[list[Any]]:
        ends = itertools.accumulate([put_at[0] + 100, *took])
        # XComs and events have them as text.
        return [[str(moment) for moment in ends]]

    answers = {
        scale_latency.COUNT: lambda dag_id: next(counts),
        scale_latency.LISTENER_STATE: lambda dag_id: next(states),
        scale_latency.MOMENTS: moments,
    }
    steps = scale_latency.seconds_of_steps(
        airflow_with(), cast(Any, FakeDatabase(answers)), "notice", lambda: put_at.append(time.time())
    )
    assert len(steps) == len(scale_latency.STEPS)
    assert 100 <= steps[0] < 110
    assert steps[1:] == pytest.approx(took, abs=1e-3)
    assert list(states) == []


# Peers


def way(name: str, *, is_alone: bool = False) -> ways.Way:
    """A way of ours."""
    return ways.Way(name, "Trigger", ways.OURS, lambda number: None, LISTENING, alone=is_alone)


def test_a_message_is_lost_if_no_task_got_it_and_twice_if_several_did() -> None:
    assert Counts.of(range(3), Counter({0: 1, 1: 4, 9: 1})) == Counts(sent=3, lost=1, twice=1)


def test_a_way_that_blocks_others_has_an_airflow_of_its_own() -> None:
    first, blocking, last = way("a"), way("b", is_alone=True), way("c")
    assert peers.together([first, blocking, last]) == [[first, last], [blocking]]


def test_lines_of_code_are_those_without_docstring_comments_and_blanks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "DAGS", tmp_path)
    code = "x = [\n    1,\n]\n\n\ndef f():  # why\n    # how\n    return x\n"
    (tmp_path / "some.py").write_text(f'"""A module."""\n\n# A comment\n{code}')
    assert way("some").lines == 5


@pytest.mark.parametrize("path", sorted(ways.DAGS.glob("*.py")), ids=lambda path: path.stem)
def test_the_dag_file_of_a_peer_has_one_line_of_docstring_and_the_dag_of_its_name(path: Path) -> None:
    docstring, *body = ast.parse(path.read_text()).body
    assert isinstance(docstring, ast.Expr)
    assert docstring.end_lineno == 1
    functions = [statement for statement in body if isinstance(statement, ast.FunctionDef)]
    assert [function.name for function in functions if function.decorator_list] == [path.stem]


# Imports


def test_imports_are_measured_in_new_processes_beside_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parse, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(parse, "DAG_FILE", "import json")
    monkeypatch.setattr(parse, "WORKFLOW", ["json", "email", "wave"])
    monkeypatch.setattr(parse, "RECIPES", {"recipe": ["wave"], "nothing": ["json"]})
    monkeypatch.setattr(parse, "BESIDE", {"other": ["email"]})

    rows = {row.what: row for row in parse.run(quick=True)}

    all_of_ours, recipe = rows["modules loaded by all of ours"], rows["modules loaded by: recipe"]
    assert all_of_ours.theirs is not None
    assert all_of_ours.ours.median > all_of_ours.theirs.median > 0
    assert all_of_ours.ours.median > recipe.ours.median > 0
    # A DAG file has loaded it before.
    assert rows["modules loaded by: nothing"].ours.median == 0
    assert (recipe.unit, recipe.at_most) == ("modules", 24)
    seconds = rows["time to import: recipe"]
    assert (seconds.unit, seconds.at_most) == ("ms", 20)
    assert 0 < seconds.ours.median < 10_000
    assert rows["time to import all of ours"].beside == "other"


def test_a_module_that_cannot_be_imported_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "DAG_FILE", "import json")
    with pytest.raises(RuntimeError, match="No module named 'no_module'"):
        parse.imported(["no_module"])
