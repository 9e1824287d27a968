"""The option grammar that ``preflight estimate`` and ``/preflight estimate`` share, made from the vocabulary."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from analyzer.errors import InputError
from estimator import hardware
from estimator.models.choose import choose_model
from estimator.runconfig import RunConfig
from estimator.sourced import Origin
from estimator.unknowns import READABLE, WORD_OF
from estimator.vocabulary import WORDS, Word, options, word_for_field

_OTHER_NAMES = {"target GPU": "gpu"}


class _Parser(argparse.ArgumentParser):
    """Errors go to the person who wrote the words, not to a terminal."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def add_options(parser: argparse.ArgumentParser) -> None:
    """One option per word. Values stay text: `run_from` reads them with the vocabulary."""
    for word in WORDS:
        if word.options:
            _add(parser, word)


def _add(parser: argparse.ArgumentParser, word: Word) -> None:
    choices = [str(item) for item in word.schema.get("enum", ()) if item is not None]
    text = f"{word.help}: {', '.join(choices)}" if choices else word.help
    metavar = word.options[0].lstrip("-").replace("-", "_").upper()
    if word.is_list:
        parser.add_argument(*word.options, dest=word.name, metavar=metavar, action="append", help=text)
    elif word.is_flag:
        parser.add_argument(*word.options, dest=word.name, metavar="YES", nargs="?", const="true", help=text)
    else:
        parser.add_argument(*word.options, dest=word.name, metavar=metavar, help=text)


def run_from(values: Mapping[str, Any], base: RunConfig | None = None) -> RunConfig:
    """The parsed options as a run config, over `base`."""
    run = base or RunConfig()
    for word in WORDS:
        value = values.get(word.name)
        if value is not None:
            shown = "" if word.is_flag and value == "true" else f" {', '.join(value) if word.is_list else value}"
            origin = Origin(f"{word.options[0]}{shown}")
            run = run.overridden_by(_read(word, value, origin))
    return run


def _read(word: Word, value: Any, origin: Origin) -> RunConfig:
    try:
        if word.is_open:
            _refuse_slip(word, value, origin)
        return RunConfig.from_document({word.name: value}, origin)
    except InputError as error:
        if word.is_flag and "=" not in str(value):  # the option took the next word, which was not meant for it
            raise InputError(f"{error}; write {word.options[0]} last, or {word.options[0]}=VALUE") from None
        raise


def _refuse_slip(word: Word, value: Any, origin: Origin) -> None:
    """What a file says in a word of an open vocabulary may be news to us; what is typed here is a slip."""
    try:
        word.parse(value)
    except ValueError as error:
        raise InputError(f"{origin}: {word.name} {error}, not {str(value)[:60]!r}") from None


def parse_words(words: Sequence[str], base: Mapping[str, Any] | None = None) -> RunConfig:
    """GPU names and options, in any order, over the document `base`. Raises `InputError` naming the word."""
    parser = _Parser(prog="estimate", add_help=False, allow_abbrev=False)
    parser.add_argument("names", nargs="*")
    add_options(parser)
    parsed, strange = parser.parse_known_intermixed_args(list(words))
    if strange:
        raise InputError(unknown_option(strange[0]))
    values = vars(parsed)
    names = list(values.pop("names"))
    if names:
        values["gpu"] = [*names, *(values["gpu"] or [])]
    start = RunConfig.from_document(base, Origin("run config")) if base is not None else None
    run = run_from(values, start)
    if names:
        run = replace(run, gpu=replace(run.gpu, origin=Origin(" ".join(names))))
    return run


def options_for(unknowns: Iterable[str]) -> list[str]:
    """The options that would say what an estimate does not know, in the order of the vocabulary."""
    fields = {text: WORD_OF.get(name, name) for name, text in READABLE.items()} | _OTHER_NAMES
    heads = [text.partition(": ")[0] for text in unknowns]
    words = {word.name for head in heads if (word := word_for_field(fields.get(head, head)))}
    return [word.options[0] for word in WORDS if word.name in words and word.options]


def meant(word: str) -> str:
    """``--gpu A100`` for a word that is no file and names a GPU or an instance; likewise a model; else empty."""
    try:
        hardware.find(word)
    except InputError:
        is_model = choose_model(RunConfig.from_document({"model": word}, Origin(word))).readings
        return f"--model {word}" if is_model else ""
    return f"--gpu {word}"


def unknown_option(option: str) -> str:
    """The message for an option we do not have."""
    close = difflib.get_close_matches(option.split("=")[0], options(), n=2, cutoff=0.6)
    return f"unknown option {option[:60]!r}" + (f"; nearest: {', '.join(close)}" if close else "")
