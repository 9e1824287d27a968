"""Follows a shell script without running it, and collects the commands it would start.

A *reading* is one way through the script. A condition that the text decides picks its branch; one that it does not
decide parts the readings (at most `MAX_READINGS`; beyond that the variables that differ become unknown). The output of
commands is unknown, but for the few pure ones that scripts use to find themselves (``dirname "$0"``).
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from analyzer.api import Files
from estimator.launch.base import Arg, UnreadableLaunch
from estimator.launch.places import find_file
from estimator.launch.shell_here import HereText, here_text
from estimator.launch.shell_parts import assumption, case_item, clauses, for_parts, only_leaves
from estimator.launch.shell_state import State
from estimator.launch.shell_tests import truth
from estimator.launch.shell_tree import descendants, line_of, parse, text_of
from estimator.launch.shell_words import Words

MAX_READINGS = 8
MAX_STEPS = 10_000
MAX_STARTED = 200
MAX_ITERATIONS = 16
MAX_NESTING = 4  # scripts started by scripts, strings run by `bash -c`, functions


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """One command that the script starts, in one reading."""

    words: tuple[Arg, ...]
    env: dict[str, Arg]
    cwd: str
    assumed: tuple[str, ...] = ()


@dataclass(slots=True)
class Run:
    """One walk over one launch file. `is_wanted` says which commands are kept."""

    files: Files
    path: str
    is_wanted: Callable[[Sequence[Arg]], bool] = lambda words: True
    started: list[Started] = field(default_factory=list)
    submitted: list[HereText] = field(default_factory=list)
    written: dict[str, HereText] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    num_steps: int = 0
    nesting: int = 0
    line_offset: int = 0  # inside a string run by a shell: the line of that command

    # --- blocks -----------------------------------------------------------------------------------------------

    def script(self, source: bytes, state: State) -> list[State]:
        """Follow a whole script from one state; the states it may end in."""
        return self.block(parse(source).children, [state])

    def block(self, nodes: Sequence[Node], states: list[State]) -> list[State]:
        """Follow statements in order, in every reading."""
        for node in nodes:
            after: list[State] = []
            for state in states:
                after += [state] if state.is_over else self.statement(node, state)
            states = _limited(after, self.notes)
        return states

    def statement(self, node: Node, state: State) -> list[State]:
        """Follow one statement in one reading. May change `state`."""
        self.num_steps += 1
        if self.num_steps > MAX_STEPS:
            raise UnreadableLaunch(f"takes more than {MAX_STEPS} steps to follow")
        handler = _STATEMENTS.get(node.type)
        return handler(self, node, state) if handler else [state]

    def words(self, state: State) -> Words:
        """The expander of a state."""
        return Words(state, self.path, self.line_offset, self._substitute)

    # --- compound statements ----------------------------------------------------------------------------------

    def _if(self, node: Node, state: State) -> list[State]:
        branches, otherwise = clauses(node)
        ended: list[State] = []
        for condition, body in branches:
            holds = truth(condition, self.words(state)) if condition is not None else None
            if holds is False:
                continue
            if holds is True:
                return ended + self.block(body, [state])
            taken = state.copy()
            taken.assumed = (*state.assumed, assumption(condition, self.line_offset))
            ended += self.block(body, [taken])
        return ended + self.block(otherwise, [state])

    def _case(self, node: Node, state: State) -> list[State]:
        value_node = node.child_by_field_name("value")
        subject = self.words(state).value(value_node, line_of(node))
        ended: list[State] = []
        for item in (child for child in node.children if child.type == "case_item"):
            patterns, body = case_item(item)
            if not subject.is_known:
                taken = state.copy()
                taken.assumed = (*state.assumed, f"{subject.text} is {' or '.join(patterns)}")
                ended += self.block(body, [taken])
            elif any(fnmatch.fnmatchcase(subject.text, pattern[:256]) for pattern in patterns):
                return self.block(body, [state])
            if "*" in patterns:
                return ended
        return [*ended, state]

    def _for(self, node: Node, state: State) -> list[State]:
        variable, values, bodies = for_parts(node)
        body = [child for group in bodies for child in group.children]
        items = [word for value in values for word in self.words(state).expand(value)]
        if not items or len(items) > MAX_ITERATIONS or any(not item.is_known for item in items):
            reason = f"loop variable {variable} takes values the file does not show"
            items = [_hole(variable, self.path, line_of(node), reason)]
        states = [state]
        for item in items:
            for current in states:
                current.assign(variable, item)
            states = self.block(body, states)
        return states

    def _while(self, node: Node, state: State) -> list[State]:
        """The body once, with what it assigns unknown: a loop may have run any number of times before."""
        for assignment in descendants(node, "variable_assignment"):
            name = text_of(assignment.children[0])
            state.assign(name, _hole(name, self.path, line_of(assignment), f"{name} changes in a loop"))
        bodies = [child for child in node.children if child.type == "do_group"]
        return self.block([child for body in bodies for child in body.children], [state])

    def _subshell(self, node: Node, state: State) -> list[State]:
        self.block(node.children, [state.copy()])
        return [state]

    def _pipeline(self, node: Node, state: State) -> list[State]:
        for child in node.children:
            self.block([child], [state.copy()])
        return [state]

    def _sequence(self, node: Node, state: State) -> list[State]:
        if node.type == "compound_statement" and node.children[0].type == "((":
            return self._test(node, state)
        return self.block(node.children, [state])

    def _list(self, node: Node, state: State) -> list[State]:
        """``a && b``, ``a || b``: what follows is run unless the first part decides against it."""
        left, joint, right = node.children[0], node.children[1].type, node.children[-1]
        holds = truth(left, self.words(state))
        ended = self.block([left], [state])
        runs_right = holds is not (joint == "||")
        if holds is None and joint == "||":
            runs_right = not only_leaves(right)
        return self.block([right], ended) if runs_right else ended

    def _redirected(self, node: Node, state: State) -> list[State]:
        body = node.child_by_field_name("body")
        for child in node.children:
            if child.type == "heredoc_redirect" and body is not None:
                self._here(node, child, body, state)
        return self.statement(body, state) if body is not None else [state]

    def _here(self, node: Node, here: Node, body: Node, state: State) -> None:
        """``sbatch <<EOF`` and ``cat <<EOF | sbatch`` submit a text; ``cat > job.slurm <<EOF`` writes one."""
        text = here_text(here, state, self.line_offset)
        piped = next((child for child in here.children if child.type == "pipeline"), None)
        told = [child for child in (piped.children if piped is not None else [body]) if child.type == "command"]
        words = [word for child in told[-1:] for part in child.children for word in self.words(state).expand(part)]
        if text is None or not words or not words[0].is_known or state.is_over:
            return
        if posixpath.basename(words[0].text) == "sbatch":
            self.submitted.append(replace(text, words=tuple(words), env=self._exported(state), cwd=state.cwd))
        elif words[0].text in {"cat", "tee"}:
            outer = [*node.children, *here.children]
            written = [part for child in outer if child.type == "file_redirect" for part in child.children[-1:]]
            names = [word.text for part in written for word in self.words(state).expand(part)]
            self.written.update(dict.fromkeys(names or [word.text for word in words[1:2]], text))

    def _exported(self, state: State) -> dict[str, Arg]:
        return {name: state.variables[name] for name in state.exported if name in state.variables}

    def _function(self, node: Node, state: State) -> list[State]:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            state.functions[text_of(name)] = body
        return [state]

    # --- assignments ------------------------------------------------------------------------------------------

    def _assignment(self, node: Node, state: State) -> list[State]:
        self.assign(node, state)
        return [state]

    def _assignments(self, node: Node, state: State) -> list[State]:
        for child in node.children:
            self.assign(child, state)
        return [state]

    def assign(self, node: Node, state: State) -> str:
        """``name=value``, ``name+=value``, ``name=(…)``; the name."""
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if target is None or target.type == "subscript":
            return ""
        name, words = text_of(target), self.words(state)
        is_added = any(child.type == "+=" for child in node.children)
        if value is not None and value.type == "array":
            items = [word for child in value.children if child.is_named and child.type != "comment"
                     for word in words.expand(child)]  # fmt: skip
            before = state.arrays.get(name, ()) if is_added else ()
            state.variables.pop(name, None)
            state.arrays[name] = (*before, *items)
            return name
        new = words.value(value, words.line(node))
        old = state.look_up(name) if is_added else None
        if old is not None:
            holes = tuple(dict.fromkeys((*old.holes, *new.holes)))
            new = replace(new, text=(old.text + new.text)[:65536], unknown=old.unknown or new.unknown, holes=holes)
        state.assign(name, new)
        return name

    def _declaration(self, node: Node, state: State) -> list[State]:
        is_exported = node.children[0].type == "export"
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                name = self.assign(child, state)
            elif child.type == "variable_name":
                name = text_of(child)
            else:
                continue
            if is_exported:
                state.exported.add(name)
        return [state]

    def _unset(self, node: Node, state: State) -> list[State]:
        for child in node.children[1:]:
            state.variables.pop(text_of(child), None)
            state.arrays.pop(text_of(child), None)
        return [state]

    def _test(self, node: Node, state: State) -> list[State]:
        if node.children and node.children[0].type == "((":
            for name in re.findall(r"([A-Za-z_]\w*)\s*(?:[-+*/]?=(?!=)|\+\+|--)", text_of(node)[:4096]):
                state.assign(name, _hole(name, self.path, line_of(node), f"{name} is set by arithmetic"))
        return [state]

    # --- commands ---------------------------------------------------------------------------------------------

    def _command(self, node: Node, state: State) -> list[State]:
        own: dict[str, Arg] = {}
        scratch = state.copy()
        words: list[Arg] = []
        for child in node.children:
            if child.type == "variable_assignment":
                name = self.assign(child, scratch)
                if name in scratch.variables:
                    own[name] = scratch.variables[name]
            elif child.type == "command_name":
                words += self.words(state).expand(child.children[0]) if child.children else []
            elif not child.type.endswith("_redirect"):
                words += self.words(state).expand(child)
        return self.execute(words, own, state)

    def execute(self, words: list[Arg], own: dict[str, Arg], state: State) -> list[State]:
        """Follow one simple command whose words are expanded."""
        if not words:
            return [state]
        builtin = _BUILTINS.get(words[0].text)
        if builtin is not None and words[0].is_known:
            return builtin(self, words, state)
        if words[0].text in state.functions:
            return self._call(words, state)
        inner = shell_string(words)
        if inner is not None:
            self._nested(inner, words, own, state)
            return [state]
        env = self._exported(state)
        if posixpath.basename(words[0].text) == "sbatch" and self._is_written(words, state):
            return [state]
        if self._started_script(words, {**env, **own}, state):
            return [state]
        if not self.is_wanted(words):
            return [state]
        if len(self.started) >= MAX_STARTED:
            raise UnreadableLaunch(f"starts more than {MAX_STARTED} commands")
        self.started.append(Started(words=tuple(words), env={**env, **own}, cwd=state.cwd, assumed=state.assumed))
        return [state]

    def _is_written(self, words: list[Arg], state: State) -> bool:
        """Whether a batch script was written by the script before."""
        text = next((self.written[word.text] for word in words[1:] if word.text in self.written), None)
        if text is None:
            return False
        options = tuple(word for word in words if word.text not in self.written)
        self.submitted.append(replace(text, words=options, env=self._exported(state), cwd=state.cwd))
        return True

    def _call(self, words: list[Arg], state: State) -> list[State]:
        if self.nesting >= MAX_NESTING:
            self.notes.append(f"line {words[0].line}: calls nested deeper than {MAX_NESTING} are not followed")
            return [state]
        before, state.positional = state.positional, tuple(words[1:])
        self.nesting += 1
        ended = self.block([state.functions[words[0].text]], [state])
        self.nesting -= 1
        for after in ended:
            after.positional = before
        return ended

    def _nested(self, inner: Arg, words: list[Arg], own: dict[str, Arg], state: State) -> None:
        """``srun … bash -c "…"`` and ``eval``: the string is a script of its own; launcher words before it stay."""
        if self.nesting >= MAX_NESTING:
            return
        nested = state.copy()
        for name, value in own.items():
            nested.assign(name, value)
            nested.exported.add(name)
        position = next(index for index, word in enumerate(words) if word is inner)
        prefix = tuple(words[: position - 2]) if position >= 2 else ()
        before, first = self.line_offset, len(self.started)
        self.line_offset, self.nesting = inner.line or words[0].line, self.nesting + 1
        try:
            self.script(inner.text.encode(), nested)
        finally:
            self.line_offset, self.nesting = before, self.nesting - 1
        self.started[first:] = [replace(item, words=(*prefix, *item.words)) for item in self.started[first:]]

    def _started_script(self, words: list[Arg], env: dict[str, Arg], state: State) -> bool:
        """``bash run.sh A B`` and ``srun ./run.sh``: follow a script of the tree with its arguments and environment."""
        at = _script_at(words)
        if at is None or not words[at].is_known or self.nesting >= MAX_NESTING:
            return False
        found = find_file(self.files, words[at].text, state.cwd, self.path)
        if found is None or found == self.path:
            return False
        start = at - 1 if at and posixpath.basename(words[at - 1].text) in {"bash", "sh"} else at
        inner = State(
            variables=dict(env), exported=set(env), positional=tuple(words[at + 1 :]), cwd=state.cwd, script=found
        )
        first = len(self.started)
        self.follow(found, inner)
        added = self.started[first:]
        self.started[first:] = [replace(item, words=(*words[:start], *item.words)) for item in added]
        return True

    # --- builtins ---------------------------------------------------------------------------------------------

    def _exit(self, words: list[Arg], state: State) -> list[State]:
        state.is_over = True
        return [state]

    def _nothing(self, words: list[Arg], state: State) -> list[State]:
        return [state]

    def _cd(self, words: list[Arg], state: State) -> list[State]:
        target = words[-1] if len(words) > 1 else None
        if target is not None and target.is_known and not posixpath.isabs(target.text):
            state.cwd = posixpath.normpath(posixpath.join(state.cwd, target.text))
        return [state]

    def _set(self, words: list[Arg], state: State) -> list[State]:
        if len(words) > 1 and words[1].text == "--":
            state.positional = tuple(words[2:])
        return [state]

    def _shift(self, words: list[Arg], state: State) -> list[State]:
        if state.positional is not None:
            by = int(words[1].text) if len(words) > 1 and words[1].text.isdigit() else 1
            state.positional = state.positional[by:]
        return [state]

    def _read(self, words: list[Arg], state: State) -> list[State]:
        for word in words[1:]:
            if word.text.isidentifier():
                state.assign(word.text, _hole(word.text, self.path, word.line, f"{word.text} is read from input"))
        return [state]

    def _prefix(self, words: list[Arg], state: State) -> list[State]:
        return self.execute(words[1:], {}, state)

    def _eval(self, words: list[Arg], state: State) -> list[State]:
        if self.nesting >= MAX_NESTING or len(words) < 2:
            return [state]
        text = " ".join(word.text for word in words[1:])
        before = self.line_offset
        self.line_offset, self.nesting = words[1].line or before, self.nesting + 1
        try:
            return self.script(text.encode(), state)
        finally:
            self.line_offset, self.nesting = before, self.nesting - 1

    def _source(self, words: list[Arg], state: State) -> list[State]:
        """``source settings.sh``: a file of the tree is followed, anything else (a virtual environment) is not."""
        if len(words) < 2 or not words[1].is_known or self.nesting >= MAX_NESTING:
            return [state]
        found = find_file(self.files, words[1].text, state.cwd, self.path)
        return self.follow(found, state) if found is not None else [state]

    def follow(self, path: str, state: State) -> list[State]:
        """Follow another script of the tree in the same state."""
        before = self.path, self.line_offset
        self.path, self.line_offset, self.nesting = path, 0, self.nesting + 1
        try:
            return self.script(self.files.read(path) or b"", state)
        except UnreadableLaunch as error:
            self.notes.append(f"{path}: {error}")
            return [state]
        finally:
            (self.path, self.line_offset), self.nesting = before, self.nesting - 1

    # --- the few commands whose output is a matter of text ----------------------------------------------------

    def _substitute(self, node: Node, state: State) -> Arg | None:
        statements = [child for child in node.children if child.is_named]
        if len(statements) != 1:
            return None
        statement = statements[0]
        if statement.type == "list" and text_of(statement.children[-1]).strip().startswith("pwd"):
            return self._pwd_after_cd(statement.children[0], state)
        words = self._plain_words(statement, state)
        pure = _PURE.get(words[0].text) if words else None
        if pure is None or len(words) < 2 or any(not word.is_known for word in words):
            return None
        return Arg(pure(words[-1].text), self.path, words[-1].line)

    def _plain_words(self, node: Node, state: State) -> list[Arg]:
        if node.type != "command":
            return []
        children = [child.children[0] if child.type == "command_name" else child for child in node.children]
        return [word for child in children if child.is_named for word in self.words(state).expand(child)]

    def _pwd_after_cd(self, node: Node, state: State) -> Arg | None:
        if node.type == "redirected_statement":
            node = node.child_by_field_name("body") or node
        words = [word for word in self._plain_words(node, state) if word.text != "--"]
        if len(words) != 2 or words[0].text != "cd" or not words[1].is_known:
            return None
        return Arg(posixpath.normpath(posixpath.join(state.cwd, words[1].text)), self.path, words[1].line)


def _script_at(words: Sequence[Arg]) -> int | None:
    """The word that names a shell script: by its suffix, or because a shell is given it (``bash train.slurm``)."""
    for index, word in enumerate(words):
        is_given = index > 0 and posixpath.basename(words[index - 1].text) in {"bash", "sh"}
        if word.text.endswith((".sh", ".bash")) or (is_given and not word.text.startswith("-")):
            return index
    return None


def shell_string(words: Sequence[Arg]) -> Arg | None:
    """The string that ``bash -c`` (or ``sh -lc``) runs, wherever in the command it stands."""
    for index in range(len(words) - 2):
        flag = words[index + 1].text
        if posixpath.basename(words[index].text) in {"bash", "sh", "zsh"} and re.fullmatch(r"-[a-z]*c", flag):
            return words[index + 2]
    return None


def _hole(name: str, path: str, line: int, reason: str) -> Arg:
    """A variable whose value is not known from here on."""
    return Arg(f"${name}", path, line, reason, holes=((f"${name}", reason),))


def _limited(states: list[State], notes: list[str]) -> list[State]:
    kept: list[State] = []
    for state in states:
        if not any(state.same_as(other) for other in kept):
            kept.append(state)
    if len(kept) <= MAX_READINGS:
        return kept
    notes.append(f"more than {MAX_READINGS} ways through the script: values that differ between them are unknown")
    first = kept[0]
    for name in {name for state in kept for name in state.variables}:
        values = {state.variables[name].text if name in state.variables else None for state in kept}
        if len(values) > 1:
            first.assign(name, _hole(name, "", 0, f"{name} depends on conditions the file does not decide"))
    first.is_over = all(state.is_over for state in kept)
    return [first]


_Statement = Callable[[Run, Node, State], list[State]]
_STATEMENTS: dict[str, _Statement] = {
    "command": Run._command,
    "variable_assignment": Run._assignment,
    "variable_assignments": Run._assignments,
    "declaration_command": Run._declaration,
    "unset_command": Run._unset,
    "test_command": Run._test,
    "if_statement": Run._if,
    "case_statement": Run._case,
    "for_statement": Run._for,
    "c_style_for_statement": Run._while,
    "while_statement": Run._while,
    "subshell": Run._subshell,
    "pipeline": Run._pipeline,
    "compound_statement": Run._sequence,
    "list": Run._list,
    "negated_command": Run._sequence,
    "redirected_statement": Run._redirected,
    "function_definition": Run._function,
    "ERROR": Run._sequence,
}
_Builtin = Callable[[Run, list[Arg], State], list[State]]
_BUILTINS: dict[str, _Builtin] = {
    "exit": Run._exit,
    "return": Run._nothing,
    "cd": Run._cd,
    "pushd": Run._cd,
    "set": Run._set,
    "shift": Run._shift,
    "read": Run._read,
    "exec": Run._prefix,
    "command": Run._prefix,
    "builtin": Run._prefix,
    "eval": Run._eval,
    "source": Run._source,
    ".": Run._source,
    **dict.fromkeys((":", "echo", "printf", "true", "false", "trap", "ulimit", "module", "wait"), Run._nothing),
}
_PURE: dict[str, Callable[[str], str]] = {
    "dirname": lambda path: posixpath.dirname(path) or ".",
    "basename": posixpath.basename,
    "realpath": str,
    "readlink": str,
    "echo": str,
}
