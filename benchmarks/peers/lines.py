"""How many lines of code a DAG file has."""

from __future__ import annotations

import ast
import io
import tokenize

NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def lines_of_code(source: str) -> int:
    """The lines of a module without blank ones, comments and the docstring of the module."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    tree = ast.parse(source)
    if ast.get_docstring(tree) is not None:
        lines -= set(range(tree.body[0].lineno, (tree.body[0].end_lineno or 0) + 1))
    return len(lines)
