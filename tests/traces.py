"""All that anybody could show of an error: its texts, and what a reporter prints of the frames it passed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from traceback import walk_tb

import airflow_provider_workflow

OURS = str(Path(airflow_provider_workflow.__file__).parent)


def chain(error: BaseException) -> list[BaseException]:
    """An error and all that it came from, what is not shown in a traceback (``from None``) included."""
    errors: list[BaseException] = []
    causes: list[object] = [error]
    while causes:
        cause = causes.pop()
        if isinstance(cause, BaseException) and cause not in errors:
            errors.append(cause)
            causes += [cause.__cause__, cause.__context__, *cause.args, *getattr(cause, "exceptions", ())]
    return errors


def texts(error: BaseException) -> str:
    """What an error, and all that it came from, say in any way. A traceback says no more."""
    texts_of_links = [(str(link), repr(link), repr(link.args), repr(vars(link))) for link in chain(error)]
    return "\n".join(text for link_texts in texts_of_links for text in link_texts)


def secrets_in(error: BaseException, secrets: Collection[str]) -> list[str]:
    """Where an error shows secrets: in its texts, in what it came from, in the frames it passed through."""
    places = (("its texts", texts(error)), *variables(error))
    return [place for place, text in places if any(secret in text for secret in secrets)]


def variables(error: BaseException) -> Iterator[tuple[str, str]]:
    """Each local variable of a frame of ours that an error passed through: where it is, and its ``repr``."""
    for link in chain(error):
        for frame, _ in walk_tb(link.__traceback__):
            code = frame.f_code
            if code.co_filename.startswith(OURS):
                place = f"{Path(code.co_filename).relative_to(OURS)}, {code.co_name}"
                yield from ((f"{place}: {name}", repr(value)) for name, value in frame.f_locals.items())
