"""Exit codes, and the errors that carry them to the user as one message without a traceback."""

from __future__ import annotations

OK, USAGE, BUDGET, OUTPUT, INTERRUPTED = 0, 2, 3, 4, 130


class CommandError(Exception):
    """Something the user can put right: what is wrong, what to do, and the exit code."""

    code = USAGE

    def __init__(self, problem: str, remedy: str = ""):
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


class InputProblem(CommandError):
    """The input file or an option cannot be used."""


class OutputProblem(CommandError):
    """The output cannot be written. Raised before anything is computed or spent."""

    code = OUTPUT
