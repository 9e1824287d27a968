"""Words: quoting, parameter expansion and field splitting, as bash does them, with "unknown" as a value.

A word is built from pieces. An unquoted piece splits at blanks, a quoted one does not. A piece whose value the script
does not show keeps its own text (``$HOSTNAME``) and the reason.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tree_sitter import Node

from estimator.launch.base import Arg
from estimator.launch.shell_arith import evaluate
from estimator.launch.shell_state import State
from estimator.launch.shell_tree import line_of, text_of

_QUOTED_ESCAPE = re.compile(r"\\([\\\"$`]|\n)")
_BARE_ESCAPE = re.compile(r"\\(.|\n)", re.DOTALL)
_MAX_TEXT = 64 * 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a word. `ends_word`: the next piece starts a new word (elements of an array)."""

    text: str
    is_quoted: bool
    unknown: str = ""
    line: int = 0
    path: str = ""
    name: str = ""
    ends_word: bool = False
    holes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Words:
    """Expands the words of one script for one state. `substitute` answers a command substitution."""

    state: State
    path: str
    line_offset: int = 0
    substitute: Callable[[Node, State], Arg | None] = lambda node, state: None

    def line(self, node: Node) -> int:
        """The line of a node in the file (text inside ``bash -c`` counts as its command's line)."""
        return self.line_offset or line_of(node)

    def expand(self, node: Node) -> list[Arg]:
        """The words that `node` becomes: none, one or several."""
        return self._split(self._pieces(node, False), self.line(node))

    def value(self, node: Node | None, line: int) -> Arg:
        """The text that `node` becomes where no splitting happens (the right side of an assignment)."""
        pieces = self._pieces(node, False) if node is not None else []
        return _join(pieces, self.path, line)

    # --- pieces -----------------------------------------------------------------------------------------------

    def _pieces(self, node: Node, is_quoted: bool) -> list[Piece]:
        handler = _HANDLERS.get(node.type)
        if handler is not None:
            return handler(self, node, is_quoted)
        if any(child.type in _HANDLERS for child in node.children) and node.type != "binary_expression":
            return self._sequence(node, is_quoted)
        return [self._literal(node, _BARE_ESCAPE.sub(_unescape, text_of(node)), is_quoted)]

    def _literal(self, node: Node, text: str, is_quoted: bool) -> Piece:
        return Piece(text[:_MAX_TEXT], is_quoted, "", self.line(node), self.path)

    def _unknown(self, node: Node, is_quoted: bool, reason: str) -> list[Piece]:
        shown = re.sub(r"\s.*", "…)", text_of(node).strip(), flags=re.DOTALL)  # no blanks: a hole never splits
        return [Piece(shown, is_quoted, reason, self.line(node), self.path, holes=((shown, reason),))]

    def _sequence(self, node: Node, is_quoted: bool) -> list[Piece]:
        return [piece for child in node.children for piece in self._pieces(child, is_quoted)]

    def _string(self, node: Node, _: bool) -> list[Piece]:
        """A double-quoted string; the grammar leaves blanks between its children out of the tree."""
        source, start = node.text or b"", node.start_byte
        if len(node.children) == 3 and re.fullmatch(r"\$(@|\*|\{(\w+\[)?[@*]\]?\})", text_of(node.children[1])):
            return self._pieces(node.children[1], True)  # "${A[@]}" of an empty array is no word at all
        pieces = [Piece("", True, "", self.line(node), self.path)]
        position = 1
        inner = [child for child in node.children if child.type != '"' or child.start_byte - start not in {0}]
        for child in inner:
            gap = source[position : child.start_byte - start].decode("utf-8", "replace")
            if gap:
                pieces.append(self._literal(node, _QUOTED_ESCAPE.sub(_unescape, gap), True))
            position = child.end_byte - start
            if child.type == '"':
                break
            pieces += self._in_string(child)
        return pieces

    def _in_string(self, child: Node) -> list[Piece]:
        if child.type in _HANDLERS and child.type not in {"string", "raw_string", "word"}:
            text = text_of(child)
            lead = text[: len(text) - len(text.lstrip())]
            before = [self._literal(child, lead, True)] if lead else []
            return before + self._pieces(child, True)
        return [self._literal(child, _QUOTED_ESCAPE.sub(_unescape, text_of(child)), True)]

    def _raw_string(self, node: Node, _: bool) -> list[Piece]:
        return [self._literal(node, text_of(node)[1:-1], True)]

    def _ansi_string(self, node: Node, _: bool) -> list[Piece]:
        body = text_of(node)[2:-1]
        for escape, char in (("\\n", "\n"), ("\\t", "\t"), ("\\'", "'"), ("\\\\", "\\")):
            body = body.replace(escape, char)
        return [self._literal(node, body, True)]

    def _simple(self, node: Node, is_quoted: bool) -> list[Piece]:
        return self._parameter(node, text_of(node).strip().lstrip("$"), is_quoted)

    def _substitution(self, node: Node, is_quoted: bool) -> list[Piece]:
        answer = self.substitute(node, self.state)
        if answer is None:
            command = re.sub(r"\s+", " ", text_of(node).strip())[:60]
            return self._unknown(node, is_quoted, f"output of {command}")
        return [self._piece(answer, is_quoted, "")]

    def _arithmetic(self, node: Node, is_quoted: bool) -> list[Piece]:
        number = evaluate(node, self.state)
        if number is None:
            return self._unknown(node, is_quoted, f"arithmetic over unknown values in {text_of(node).strip()[:40]}")
        return [self._literal(node, str(number), is_quoted)]

    # --- parameters -------------------------------------------------------------------------------------------

    def _parameter(self, node: Node, name: str, is_quoted: bool) -> list[Piece]:
        if name in {"@", "*"}:
            return self._positional_all(node, is_quoted)
        value = self.parameter(name)
        if value is None:
            kind = f"argument {name} of the script" if name.isdigit() else f"variable {name}"
            return self._unknown(node, is_quoted, f"{kind} is not set in the file")
        return [self._piece(value, is_quoted, name)]

    def parameter(self, name: str) -> Arg | None:
        """``$name``; None where the script does not say."""
        if name == "0":
            return Arg(self.state.script or self.path, self.path, 0)
        if name == "#":
            given = self.state.positional
            return None if given is None else Arg(str(len(given)), self.path, 0)
        if name.isdigit() and self.state.positional is not None:
            index = int(name) - 1
            return self.state.positional[index] if index < len(self.state.positional) else Arg("", self.path, 0)
        if name in {"PWD", "SLURM_SUBMIT_DIR"} and name not in self.state.variables:
            return Arg(self.state.cwd, self.path, 0)
        return self.state.look_up(name)

    def _piece(self, value: Arg, is_quoted: bool, name: str) -> Piece:
        path, name = value.path or self.path, value.name or name
        return Piece(value.text, is_quoted, value.unknown, value.line, path, name, holes=value.holes)

    def _positional_all(self, node: Node, is_quoted: bool) -> list[Piece]:
        given = self.state.positional or ()
        return [replace(self._piece(item, True, ""), ends_word=True) for item in given]

    def _elements(self, name: str, is_quoted: bool) -> list[Piece] | None:
        if name in self.state.arrays:
            items = self.state.arrays[name]
            return [replace(self._piece(item, True, name), ends_word=True) for item in items]
        value = self.state.look_up(name)
        return None if value is None else [self._piece(value, is_quoted, name)]

    def _expansion(self, node: Node, is_quoted: bool) -> list[Piece]:
        """``${…}``."""
        inner = [child for child in node.children if child.type not in {"${", "}"}]
        if not inner:
            return self._unknown(node, is_quoted, "empty parameter expansion")
        if inner[0].type == "#" and len(inner) > 1:
            return self._length(node, inner[1], is_quoted)
        if inner[0].type == "!":
            return self._unknown(node, is_quoted, "indirect expansion")
        subject, rest = inner[0], inner[1:]
        if subject.type == "subscript":
            return self._subscript(node, subject, rest, is_quoted)
        name = text_of(subject)
        if name in {"@", "*"} and not rest:
            return self._positional_all(node, is_quoted)
        if not rest:
            return self._parameter(node, name, is_quoted)
        return self._operator(node, name, rest, is_quoted)

    def _subscript(self, node: Node, subject: Node, rest: list[Node], is_quoted: bool) -> list[Piece]:
        name_node, index_node = subject.child_by_field_name("name"), subject.child_by_field_name("index")
        name = text_of(name_node) if name_node is not None else ""
        index = text_of(index_node) if index_node is not None else ""
        if rest:
            return self._unknown(node, is_quoted, "operator on an array")
        if name == "BASH_SOURCE":
            return [self._literal(node, self.path, is_quoted)]
        if index in {"@", "*"}:
            found = self._elements(name, is_quoted)
            return found if found is not None else []  # arrays are never inherited from the environment
        items = self.state.arrays.get(name)
        if items is None or not index.isdigit() or int(index) >= len(items):
            return self._unknown(node, is_quoted, f"element {index} of {name} is not known")
        return [self._piece(items[int(index)], is_quoted, name)]

    def _length(self, node: Node, subject: Node, is_quoted: bool) -> list[Piece]:
        text = text_of(subject)
        name = re.split(r"\[", text)[0]
        if "[" in text and name in self.state.arrays:
            return [self._literal(node, str(len(self.state.arrays[name])), is_quoted)]
        value = self.parameter(name)
        if value is None or value.unknown or "[" in text:
            return self._unknown(node, is_quoted, f"length of {name} is not known")
        return [self._literal(node, str(len(value.text)), is_quoted)]

    def _operator(self, node: Node, name: str, rest: list[Node], is_quoted: bool) -> list[Piece]:
        operator = rest[0].type
        value = self.parameter(name)
        if operator in {":-", "-", ":=", "=", ":+", "+", ":?", "?"}:
            return self._conditional(node, name, value, operator, rest[1:], is_quoted)
        if value is None or value.unknown:
            return self._unknown(node, is_quoted, f"variable {name} is not known")
        operands = "".join(piece.text for child in rest[1:] for piece in self._pieces(child, True))
        changed = _edit(value.text, operator, operands)
        if changed is None:
            return self._unknown(node, is_quoted, f"operator {operator} is not evaluated")
        return [replace(self._piece(value, is_quoted, name), text=changed)]

    def _conditional(
        self, node: Node, name: str, value: Arg | None, operator: str, operand: list[Node], is_quoted: bool
    ) -> list[Piece]:
        is_set = value is not None and (value.text != "" or not operator.startswith(":"))
        alternative = [piece for child in operand for piece in self._pieces(child, is_quoted)]
        if operator.endswith("+"):
            return alternative if is_set else []
        if value is not None and is_set:
            return [self._piece(value, is_quoted, name)]
        if operator.endswith("?"):
            return self._unknown(node, is_quoted, f"variable {name} must be given")
        if operator.endswith("="):
            self.state.assign(name, _join(alternative, self.path, self.line(node)))
        return [replace(piece, name=piece.name or name) for piece in alternative]

    # --- words ------------------------------------------------------------------------------------------------

    def _split(self, pieces: list[Piece], line: int) -> list[Arg]:
        words: list[Arg] = []
        current: list[Piece] = []

        def finish() -> None:
            if current and (any(piece.is_quoted for piece in current) or any(piece.text for piece in current)):
                words.append(_join(current, self.path, line))
            current.clear()

        for piece in pieces:
            if piece.is_quoted or not re.search(r"\s", piece.text):
                current.append(piece)
            else:
                for token in re.findall(r"\s+|\S+", piece.text):
                    if token.isspace():
                        finish()
                    else:
                        current.append(_token(piece, token))
            if piece.ends_word:
                finish()
        finish()
        return words


def _token(piece: Piece, text: str) -> Piece:
    """One word out of a piece: unknown only if a hole is in it."""
    holes = tuple(hole for hole in piece.holes if hole[0] in text)
    return replace(piece, text=text, holes=holes, unknown=holes[0][1] if holes else "")


def _unescape(match: re.Match[str]) -> str:
    return "" if match.group(1) == "\n" else match.group(1)


def _join(pieces: list[Piece], path: str, line: int) -> Arg:
    """One word; it belongs to the line of the variable when that is all it consists of."""
    filled = [piece for piece in pieces if piece.text]
    unknown = next((piece.unknown for piece in filled if piece.unknown), "")
    text = "".join(piece.text for piece in pieces)[:_MAX_TEXT]
    holes = tuple(dict.fromkeys(hole for piece in filled for hole in piece.holes))[:32]
    named = [piece for piece in filled if piece.name]
    if named and named[-1].line and all(piece.name or piece.text.endswith("=") for piece in filled):
        return Arg(text, named[-1].path, named[-1].line, unknown, named[-1].name, holes)
    return Arg(text, path, line, unknown, holes=holes)


def _edit(text: str, operator: str, operand: str) -> str | None:
    if operator in {"#", "##"}:
        return _strip(text, operand, range(len(text) + 1), operator == "##", lambda cut: (text[:cut], text[cut:]))
    if operator in {"%", "%%"}:
        cuts = range(len(text), -1, -1)
        return _strip(text, operand, cuts, operator == "%%", lambda cut: (text[cut:], text[:cut]))
    if operator in {"^^", ",,"}:
        return text.upper() if operator == "^^" else text.lower()
    return None


def _strip(
    text: str, pattern: str, cuts: range, is_longest: bool, part: Callable[[int], tuple[str, str]]
) -> str | None:
    if len(text) > 4096 or len(pattern) > 64 or pattern.count("*") > 4:
        return None
    for cut in reversed(cuts) if is_longest else cuts:
        removed, kept = part(cut)
        if fnmatch.fnmatchcase(removed, pattern):
            return kept
    return text


_Handler = Callable[[Words, Node, bool], list[Piece]]
_HANDLERS: dict[str, _Handler] = {
    "string": Words._string,
    "translated_string": Words._sequence,
    "raw_string": Words._raw_string,
    "ansi_c_string": Words._ansi_string,
    "simple_expansion": Words._simple,
    "expansion": Words._expansion,
    "command_substitution": Words._substitution,
    "process_substitution": partial(Words._unknown, reason="process substitution"),
    "arithmetic_expansion": Words._arithmetic,
    "concatenation": Words._sequence,
}
