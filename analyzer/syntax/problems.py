"""Why a file is no Python program, with the place of the error."""

from __future__ import annotations

import ast
import warnings

from analyzer.programs import POINTER, is_pointer
from analyzer.syntax.later import cst


def syntax_problem(source: bytes) -> str | None:
    """``syntax error at 3:7`` (1-based line, 0-based column), or None. The source must not be too deep to parse.

    Python's own parser is twenty times as fast as LibCST's and knows the place better; LibCST, which reads the syntax
    of every version alike, has the last word on whether there is an error.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except SyntaxError as error:
        return _confirmed(source, error)
    except (ValueError, RecursionError, MemoryError):
        return _confirmed(source, None)
    return None


def _confirmed(source: bytes, known: SyntaxError | None) -> str | None:
    if is_pointer(source):
        return POINTER
    try:
        cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        line, column = error.raw_line, error.raw_column
        if known is not None and known.lineno:
            line, column = known.lineno, max((known.offset or 1) - 1, 0)
        return f"syntax error at {line}:{column}"
    except Exception as error:  # noqa: BLE001  boundary per file: null bytes, odd encodings, a parser bug
        return f"cannot be parsed: {type(error).__name__}: {error}"[:200]
    return None
