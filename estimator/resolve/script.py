"""A Python script and its arguments -> the run configs it means: the analyzer says which values reach which calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from analyzer import api as analyzer
from analyzer.api import CallSite, Files, Known
from analyzer.api import Origin as Place
from estimator.launch.base import Arg
from estimator.resolve import architectures, arguments, frameworks, networks
from estimator.resolve.command import option_pairs
from estimator.resolve.frameworks import Facts, joined
from estimator.resolve.versions import major_version
from estimator.runconfig import RunConfig
from estimator.sourced import Origin, Sourced, Unknown

DECLARED = "transformers.HfArgumentParser.declared"  # the analyzer's name for what parsed dataclasses declare
_DIRECT = ("grad_accum", "seq_len", "optimizer", "quantization", "lora_rank", "lora_targets", "grad_checkpointing",
           "attention", "compile", "sharding", "offload", "max_context", "image_size",
           "splits_batch", "tp_degree", "cp_degree", "sp_degree", "optimizer_impl", "bucket_view", "ema", "dora",
           "objective", "packing")  # fmt: skip
_COMPUTE = {
    ("fp32", "bf16"): "amp-bf16",
    ("fp32", "fp16"): "amp-fp16",
    ("fp32", "none"): "fp32",
    ("fp32", "fp8"): "fp8",
}
_PURE = {"bf16": "pure-bf16", "fp16": "pure-fp16"}


NOTHING_SAID = RunConfig()


def run_configs(files: Files, path: str, argv: Sequence[Arg], said: RunConfig = NOTHING_SAID) -> tuple[RunConfig, ...]:
    """The run configs of ``python path ARGV…``, one per model it may load; none where the script trains nothing. A
    network of the repository is run on inputs of the size that a person has `said`, of which nothing else is read."""
    facts = script_facts(files, path, argv, said=said)
    return configs_from(facts, files)


def script_facts(
    files: Files, path: str, argv: Sequence[Arg], extra: Mapping[str, Sourced[Any]] | None = None,
    said: RunConfig = NOTHING_SAID,
) -> Facts:  # fmt: skip
    """What the script's calls say under these arguments; `extra` are the launcher's, where the script is silent, and
    `said` has the sizes of inputs that a person gives."""
    words = [(text, Place(word.path, word.line, shown)) for text, word, shown in option_pairs(_passed(argv))]
    wanted = frameworks.callees() | architectures.callees() | {DECLARED}
    sites = [_without_unresolved(site, argv) for site in analyzer.call_sites(files, path, wanted, words)]
    facts = frameworks.gather(sites)
    model = architectures.built(sites)
    if model is not None and "model" not in facts.marks:
        facts.marks["model"] = model[1]
        facts.add("arch", model[0])
        facts.add("weights_dtype", Sourced("fp32", replace(model[1], text="built from a configuration, in float32")), 1)
    if "hf_parser" in facts.marks:
        declared = {name: items for site in sites if site.callee == DECLARED for name, items in site.arguments.items()}
        arguments.add_hf_options(facts, argv, declared)
    if "model" not in facts.marks and not facts.candidates("model"):
        networks.add(facts, files, path, words, said)
    for name, value in (extra or {}).items():
        if not facts.candidates(name):
            facts.add(name, value)
    return facts


def _passed(argv: Sequence[Arg]) -> list[Arg]:
    """Words the script's parser can see: one that may be several (``$EXTRA``) is kept only as an option's value."""
    kept: list[Arg] = []
    for index, word in enumerate(argv):
        before = argv[index - 1] if index else None
        is_value = before is not None and before.text.startswith("-") and "=" not in before.text
        if word.is_known or is_value or word.text.startswith("-"):
            kept.append(word)
    return kept


def _without_unresolved(site: CallSite, argv: Sequence[Arg]) -> CallSite:
    """Values that are an unresolved word of the command (``$BATCH``) are unseen, with that word's reason."""
    unresolved = [word for word in argv if word.unknown]
    if not unresolved:
        return site

    def see(item: analyzer.Argument) -> analyzer.Argument:
        if isinstance(item, Known) and isinstance(item.value, str) and "$" in item.value:
            for word in unresolved:
                if item.value in word.text:
                    return analyzer.Unseen(word.unknown, item.origin)
        return item

    seen = {name: tuple(see(item) for item in items) for name, items in site.arguments.items()}
    return replace(site, arguments=seen)


def configs_from(facts: Facts, files: Files) -> tuple[RunConfig, ...]:
    """The facts put together. No model and no training: no run."""
    if not facts.marks.keys() & {"model", "training", "trainer", "hf_parser"}:
        return ()
    common: dict[str, Any] = dict(_fields(facts, files))
    built = facts.candidates("arch")
    if local := facts.one("network"):
        common["network"] = local
    if built:
        common["arch"] = built[0]
    models = _distinct(facts.candidates("model"))
    if not models:
        place = _nothing_said(facts, "")
        if local is not None:
            return (replace(RunConfig(), **common),)
        if built and built[0].is_known:
            return (replace(RunConfig(), **common),)
        unseen: Sourced[Any] = Sourced(Unknown("no call that loads a model by its id is in sight"), place)
        return (replace(RunConfig(), **{**common, "model": unseen}),)
    notes = tuple(
        ("model", f"{item.value} is loaded too ({item.origin}); its memory is not counted")
        for item in models[1:] if item.is_known
    )  # fmt: skip
    return (replace(RunConfig(not_understood=notes), **{**common, "model": models[0]}),)


def _distinct(values: Sequence[Sourced[Any]]) -> list[Sourced[Any]]:
    """Known models first, each once; a model whose id is not known only if there is no other."""
    known: dict[Any, Sourced[Any]] = {}
    for item in values:
        if isinstance(item.value, str):
            known.setdefault(item.value, item)
    return list(known.values()) or list(values[:1])


def _fields(facts: Facts, files: Files) -> dict[str, Sourced[Any]]:
    fields = {name: value for name in _DIRECT if (value := facts.one(name)) is not None}
    is_training = bool(facts.marks.keys() & {"training", "trainer", "hf_parser"})
    fields["task"] = _task(facts, is_training)
    fields["precision"] = _precision(facts, files)
    if (batch := _micro_batch(facts)) is not None:
        fields["micro_batch"] = batch
    if is_training:
        fields["method"] = _method(facts, fields)
        if fields["method"].value in {"full", "freeze"}:  # an option for adapters that are not attached
            fields = {name: value for name, value in fields.items() if not name.startswith("lora_")}
        fields.setdefault("grad_checkpointing", Sourced("none", _nothing_said(facts, "nothing turns checkpointing on")))
    _add_momentum(facts, fields)
    if fields["task"].value == "generate":
        _add_context(facts, fields)
    return fields


def _nothing_said(facts: Facts, text: str) -> Origin:
    place = facts.marks.get("trainer") or facts.marks.get("model") or facts.marks.get("training")
    return Origin(text, place.path, 0) if place else Origin(text)


def _task(facts: Facts, is_training: bool) -> Sourced[str]:
    for mark in ("trainer", "training", "hf_parser"):
        if is_training and mark in facts.marks:
            return Sourced("train", facts.marks[mark])
    if "generation" in facts.marks:
        return Sourced("generate", facts.marks["generation"])
    return Sourced("infer", facts.marks.get("model", Origin("no optimizer and no backward")))


def _micro_batch(facts: Facts) -> Sourced[Any] | None:
    """The trainer's argument, else the loader that shuffles, else whatever the loaders agree on."""
    if facts.candidates("micro_batch"):
        return facts.one("micro_batch")
    shuffled = [value for is_shuffled, values in facts.loaders for value in values if is_shuffled]
    return joined(shuffled or [value for _, values in facts.loaders for value in values])


def _method(facts: Facts, fields: Mapping[str, Sourced[Any]]) -> Sourced[str]:
    if "peft" not in facts.marks:
        frozen = next((item for item in facts.candidates("is_trained") if item.value is False), None)
        if frozen is not None:
            reason = "parameters are frozen: which are trained is not counted"
            return Sourced(Unknown(reason, ("freeze", "full")), frozen.origin)
        return Sourced("full", _nothing_said(facts, "no adapter is attached"))
    quantization = fields.get("quantization")
    if quantization is not None and not quantization.is_known:
        reason = f"whether the base is quantized: {_reason(quantization)}"
        return Sourced(Unknown(reason, ("qlora", "lora")), quantization.origin)
    is_quantized = quantization is not None and quantization.value in {"nf4", "int4"}
    return Sourced("qlora" if is_quantized else "lora", facts.marks["peft"])


def _add_momentum(facts: Facts, fields: dict[str, Sourced[Any]]) -> None:
    momentum, optimizer = facts.one("momentum"), fields.get("optimizer")
    if momentum is None or optimizer is None or optimizer.value != "sgd":
        return
    if not momentum.is_known:
        fields["optimizer"] = Sourced(
            Unknown(f"SGD whose momentum is not known: {_reason(momentum)}", ("sgd", "sgd-momentum")), momentum.origin
        )
    elif momentum.value:
        fields["optimizer"] = Sourced("sgd-momentum", optimizer.origin)


def _reason(sourced: Sourced[Any]) -> str:
    return sourced.value.reason if isinstance(sourced.value, Unknown) else ""


def _add_context(facts: Facts, fields: dict[str, Sourced[Any]]) -> None:
    """Tokens in the cache at the end: the prompt and what is generated."""
    new, prompt = facts.one("new_tokens"), fields.get("seq_len")
    if new is None or not isinstance(new.value, int):
        return
    if prompt is not None and isinstance(prompt.value, int):
        fields["max_context"] = Sourced(prompt.value + new.value, new.origin)
    elif "max_context" not in fields:
        fields["max_context"] = Sourced(
            Unknown(f"prompt length is not known; {new.value} tokens are generated"), new.origin
        )


# --- precision ------------------------------------------------------------------------------------------------


def _precision(facts: Facts, files: Files) -> Sourced[Any]:
    """Weights and compute dtype together: the table of launch formats, section 0.4."""
    weights, compute = _weights(facts, files), facts.one("compute_dtype")
    if compute is None:
        compute = Sourced("none", _nothing_said(facts, "no autocast"))
    if not compute.is_known and not weights.is_known:
        return Sourced(compute.value, compute.origin)
    options = [
        (precision, weight, calculation)
        for weight in _readings(weights, ("fp32", "bf16"))
        for calculation in _readings(compute, ("none", "bf16", "fp16"))
        if (precision := _PURE.get(weight) or _COMPUTE.get((weight, calculation), ""))
    ]
    names: list[str] = list(dict.fromkeys(precision for precision, _, _ in options))
    origin = weights.origin
    if compute.is_known and compute.value != "none":
        origin = replace(compute.origin, text=f"{compute.origin.text}; weights: {weights.origin}")
    if len(names) == 1:
        return Sourced(names[0], origin, (*weights.overrides, *compute.overrides))
    why = _reason(weights) or _reason(compute) or "the code does not show the precision"
    return Sourced(Unknown(why, tuple(_cheapest_first(names))), origin)


def _cheapest_first(precisions: Sequence[str]) -> list[str]:
    order = ("pure-bf16", "pure-fp16", "fp8", "amp-bf16", "amp-fp16", "fp32")
    return [precision for precision in order if precision in precisions]


def _readings(value: Sourced[Any], plausible: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(value.value, Unknown):
        return tuple(str(item) for item in value.value.plausible) or plausible
    return (str(value.value),)


def _weights(facts: Facts, files: Files) -> Sourced[Any]:
    """What the model is loaded in: without dtype, float32 before transformers 5 and the checkpoint's dtype after."""
    given = facts.one("weights_dtype")
    silent = facts.silent.get("weights_dtype")
    if given is not None and given.is_known and silent is not None and "weights_dtype" in facts.spoken:
        reason = f"loaded twice: as {given.value} ({given.origin}), and without a dtype ({silent})"
        return Sourced(Unknown(reason, ("bf16", "fp32", *{str(given.value)} - {"bf16", "fp32", "auto"})), silent)
    if given is not None and given.value != "auto":
        return given
    if "model" not in facts.marks and "hf_parser" not in facts.marks:
        return Sourced("fp32", Origin("modules are built in float32"))
    if given is not None:
        return Sourced(Unknown("dtype='auto': the checkpoint decides", ("bf16", "fp32")), given.origin)
    version = major_version(files, "transformers")
    if isinstance(version.value, int) and version.value <= 4:
        return Sourced(
            "fp32",
            Origin(f"from_pretrained without dtype under {version.origin}", version.origin.path, version.origin.line),
        )
    who = (
        "transformers 5 loads the checkpoint's dtype"
        if version.is_known
        else f"{_reason(version)}: float32 before 5, the checkpoint's dtype after"
    )
    return Sourced(Unknown(f"weights: {who}", ("bf16", "fp32")), facts.marks.get("model", version.origin))
