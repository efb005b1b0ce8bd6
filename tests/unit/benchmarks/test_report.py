"""What is shown of rows, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.report import table, write_json
from benchmarks.results import Target, alone, compared

FOUND = {
    "client": [compared("CPU", "ms", [0.5, 0.7], "bare", [0.25, 0.35], Target("ratio", "<=", 1.25))],
    "parse": [
        alone("modules", "modules", [1234.0], Target("ours", "<", 2000)),
        alone("time", "ms", [12.345]),
    ],
}


def test_the_table_has_a_line_for_each_row_below_the_name_of_its_benchmark() -> None:
    lines = [line.split() for line in table(FOUND).splitlines()]
    assert lines[1:4] == [
        [],
        ["client"],
        [
            "CPU",
            "ms",
            "2",
            "0.60",
            "(0.55..0.65)",
            "bare",
            "0.30",
            "(0.28..0.32)",
            "2",
            "ratio",
            "<=",
            "1.25",
            "missed",
        ],
    ]
    assert lines[4:8] == [
        [],
        ["parse"],
        ["modules", "modules", "1", "1234", "ours", "<", "2000", "met"],
        ["time", "ms", "1", "12.3"],
    ]


def test_the_columns_of_the_table_stand_below_each_other() -> None:
    lines = table(FOUND).splitlines()[:-1]  # the last is the legend
    column = lines[0].index("target")
    assert [line[column:].split("  ")[0] for line in lines if len(line) > column] == [
        "target",
        "ratio <= 1.25",
        "ours < 2000",
    ]


def test_json_names_the_benchmark_of_each_row_and_what_it_ran_on(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    write_json(FOUND, path)
    written = json.loads(path.read_text())
    assert {"at", "python", "airflow", "cores", "quick", "rows"} == set(written)
    assert [(row["benchmark"], row["what"]) for row in written["rows"]] == [
        ("client", "CPU"),
        ("parse", "modules"),
        ("parse", "time"),
    ]
    assert written["rows"][0]["ratio"]["median"] == 2.0
