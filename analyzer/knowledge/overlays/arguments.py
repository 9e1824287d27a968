"""Command lines: argparse, and transformers' parser of dataclasses. Options given in `argv` override defaults."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from analyzer.engine.calls import Calls
from analyzer.engine.commands import ARGV, plain
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.values import Class, Const, External, Ref, Scalar, Tuple, Unknown, Value, const, join, option
from analyzer.syntax import ir
from analyzer.syntax.scope import target_names

MAX_BASES = 10
DECLARED = "transformers.HfArgumentParser.declared"
"""For the estimator: a call that stands for parsing; its keywords are the defaults that the dataclasses declare."""


def make_parser(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``ArgumentParser()``."""
    ref = machine.create("parser", at, "ArgumentParser", "the argument parser")
    machine.empty(ref, state)
    return ref


def add_argument(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """One option: its value from the command line, else its default. A rule must hold for every command line, so only
    a caller that asks for values (the estimator) is told the default."""
    names = [str(case.value) for value in args.positional for case in value.cases if isinstance(case, Const)]
    if not names:
        return Scalar()
    long = next((name for name in names if name.startswith("--")), names[0])
    given_dest = args.keywords.get("dest")
    dest = str(given_dest.value) if isinstance(given_dest, Const) else long.lstrip("-").replace("-", "_")
    default = _default(machine, args, long, at, state)
    value = _given(machine, args, names, default, at, state)
    is_stuck = _is_stuck(args, value) and state.get((ref.obj, dest)) is None
    state.set((ref.obj, dest), value if is_stuck else _opened(machine, value))
    return Scalar()


def given_option(machine: Calls, args: Args, name: str, at: int, state: State) -> Value:
    """The value of one option: from the command line, else its default, which only the estimator is told."""
    return _opened(machine, _given(machine, args, [name], _default(machine, args, name, at, state), at, state))


def _opened(machine: Calls, value: Value) -> Value:
    return option(value) if isinstance(value, Const) and not machine.wanted and not machine.argv else value


def _is_stuck(args: Args, value: Value) -> bool:
    """Whether a flag sets what it has by default, and no other option sets the same: it cannot be turned off."""
    sets = {"store_true": True, "store_false": False}.get(_action(args))
    return isinstance(value, Const) and sets is not None and value.value is sets


def _action(args: Args) -> str:
    value = args.keywords.get("action")
    if isinstance(value, Const):
        return str(value.value)
    return value.name.rsplit(".", 1)[-1] if isinstance(value, External) else ""


def _default(machine: Calls, args: Args, name: str, at: int, state: State) -> Value:
    site = machine.site(at)
    value = args.keywords.get("default")
    if value is None:
        required = args.keywords.get("required")
        if not name.startswith("-") or (isinstance(required, Const) and required.value):
            reason = f"argument {name} is required, and no command gives it"
            return Unknown(reason, is_given=True, trace=start(site, reason, Gap.UNSEEN))
        by_action = {"store_true": False, "store_false": True}.get(_action(args))
        value = const(by_action)
    if isinstance(value, Const):
        text = f"{name}, default {value.value!r}"
        return const(value.value, start(site, text))
    return value


def _given(machine: Calls, args: Args, names: list[str], default: Value, at: int, state: State) -> Value:
    """The value that the command line gives an option, recording the default that it overrides."""
    found: Value | None = None
    for index, (word, _) in enumerate(machine.argv):
        name, has_value, text = word.partition("=")
        action = _action(args)
        is_short = is_abbreviation(name, names)
        is_negated = action == "BooleanOptionalAction" and f"--{name.removeprefix('--no-')}" in names
        if name not in names and not is_negated and not is_short:
            continue
        if action in {"store_true", "store_false", "BooleanOptionalAction"}:
            on = not name.startswith("--no-") if action == "BooleanOptionalAction" else action == "store_true"
            found = const(on)
        elif "nargs" in args.keywords:
            rest = itertools.takewhile(lambda item: not item[0].startswith("--"), machine.argv[index + 1 :])
            found = Tuple(tuple(_typed(machine, args, item, at, state) for item, _ in rest))
        elif has_value or index + 1 < len(machine.argv):
            found = _typed(machine, args, text if has_value else machine.argv[index + 1][0], at, state)
        if isinstance(found, Const):
            replaced = (default,) if isinstance(default, Const) else ()
            found = const(found.value, start(Site(ARGV, index), word), replaced)
    return default if found is None else found


def is_abbreviation(given: str, names: Sequence[str]) -> bool:
    """argparse accepts the beginning of an option that no other begins with. Here only what ends inside a word of
    several (``--max_seq_len`` for ``--max_seq_length``): a whole word may well be an option of its own."""
    plain = given.lstrip("-").replace("-", "_")
    longer = [name.lstrip("-").replace("-", "_") for name in names if name.startswith("--")]
    return "_" in plain and any(
        name.startswith(plain) and name != plain and name[len(plain)].isalnum() and not plain.endswith("_")
        for name in longer
    )


def _typed(machine: Calls, args: Args, text: str, at: int, state: State) -> Value:
    kind = args.keywords.get("type")
    return machine.call(kind, Args((const(text),)), at, state) if kind is not None else const(text)


def parse_args(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``parse_args()``: a namespace of the options."""
    space = machine.create("namespace", at, "Namespace", "the parsed arguments")
    machine.empty(space, state)
    for name, value in state.fields(ref.obj):
        state.set((space.obj, name), value)
    return space


def parse_known_args(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``parse_known_args()``: the namespace and the rest."""
    return Tuple((parse_args(machine, ref, args, at, state), Scalar()))


def set_defaults(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``set_defaults(name=value)``."""
    for name, value in args.keywords.items():
        known = state.get((ref.obj, name))
        if not (isinstance(known, Const) and known.trace and known.trace.site.path == ARGV):
            state.set((ref.obj, name), value)
    return Scalar()


def same_parser(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """Groups add to their parser."""
    return ref


def make_hf_parser(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``HfArgumentParser((A, B))``."""
    ref = machine.create("parser", at, "HfArgumentParser", "the argument parser")
    machine.empty(ref, state)
    state.set((ref.obj, "classes"), args.at(0, "dataclass_types") or Scalar())
    return ref


def parse_dataclasses(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """One instance per class, its fields from the command line."""
    classes = state.get((ref.obj, "classes")) or Scalar()
    items = classes.items if isinstance(classes, Tuple) else (classes,)
    if isinstance(classes, Ref):
        items = tuple(value for name, value in state.fields(classes.obj) if name[:1] == "[")
    parsed = [from_command_line(machine, item, at, state) for item in items]
    declared = {
        name: value for item in items if isinstance(item, Class) for name, value in _declared(machine, item, state)
    }
    machine.saw(DECLARED, Args((), declared), at, state)
    rest = args.keywords.get("return_remaining_strings")
    return Tuple((*parsed, Scalar()) if isinstance(rest, Const) and rest.value else tuple(parsed))


def _declared(machine: Calls, cls: Class, state: State) -> Iterator[tuple[str, Value]]:
    """The fields that a class and its bases in the repository declare, with their defaults."""
    for name in field_names(cls):
        default = machine.class_attribute(cls, name, state)
        if default is not None:
            yield name, default


def from_command_line(machine: Calls, cls: Value, at: int, state: State) -> Value:
    """An instance whose constructor is given the options of the command line."""
    given: dict[str, Value] = {}
    names = field_names(cls) if isinstance(cls, Class) else []
    for index, (word, _) in enumerate(machine.argv):
        if word.startswith("--"):
            name, has_value, text = word[2:].partition("=")
            following = machine.argv[index + 1][0] if index + 1 < len(machine.argv) else "--"
            raw = text if has_value else "true" if following.startswith("--") else following
            field = name.replace("-", "_")
            whole = [known for known in names if is_abbreviation(field, [f"--{known}"])]
            field = whole[0] if len(whole) == 1 and field not in names else field
            known = machine.class_attribute(cls, field, state) if isinstance(cls, Class) else None
            overrides = (known,) if isinstance(known, Const) else ()
            given[field] = const(plain(raw), start(Site(ARGV, index), word), overrides)
    if isinstance(cls, Class):
        fields = set(names)
        given = {name: value for name, value in given.items() if name in fields or not fields}
    return machine.call(cls, Args((), given), at, state)


def field_names(cls: Class, depth: int = 0) -> list[str]:
    """The annotated fields of a dataclass and of its bases in the repository, in order."""
    inherited = [
        name
        for base in (cls.bases if depth < MAX_BASES else ())
        for case in base.cases
        if isinstance(case, Class)
        for name in field_names(case, depth + 1)
    ]
    own = [
        name
        for node in cls.node.body
        if isinstance(node, ir.Assign) and node.annotation is not None
        for name in target_names(node.targets[0])
    ]
    return list(dict.fromkeys([*inherited, *own]))


def environment(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``os.environ.get``: whatever the machine it runs on has set."""
    name = args.at(0)
    reason = f"environment variable {name.value}" if isinstance(name, Const) else "an environment variable"
    value: Value = Unknown(reason, trace=start(machine.site(at), reason, Gap.UNSEEN))
    default = args.at(1)
    return value if default is None else join(value, default)


def as_dict(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``vars(namespace)``: the options under their names."""
    given = args.at(0)
    if not isinstance(given, Ref) or machine.obj(given).kind != "Namespace":
        return Scalar()
    made = machine.create("dict", at, "dict", "the parsed arguments")
    machine.empty(made, state)
    for name, value in state.fields(given.obj):
        state.set((made.obj, f"[{name!r}]"), value)
    return made


def dataclass_field(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``field(default=…)``."""
    factory = args.keywords.get("default_factory")
    if factory is not None:
        return machine.call(factory, Args(), at, state)
    return args.keywords.get("default") or Scalar()


FUNCTIONS = {
    "argparse.ArgumentParser": make_parser,
    "transformers.HfArgumentParser": make_hf_parser,
    "trl.TrlParser": make_hf_parser,
    "builtins.vars": as_dict,
    "os.environ.get": environment,
    "os.getenv": environment,
    "dataclasses.field": dataclass_field,
}
METHODS = {
    ("ArgumentParser", "add_argument"): add_argument,
    ("ArgumentParser", "parse_args"): parse_args,
    ("ArgumentParser", "parse_known_args"): parse_known_args,
    ("ArgumentParser", "set_defaults"): set_defaults,
    ("ArgumentParser", "add_argument_group"): same_parser,
    ("ArgumentParser", "add_mutually_exclusive_group"): same_parser,
    ("HfArgumentParser", "parse_args_into_dataclasses"): parse_dataclasses,
    ("HfArgumentParser", "parse_args_and_config"): parse_dataclasses,
}
