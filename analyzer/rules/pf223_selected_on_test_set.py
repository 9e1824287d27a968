"""PF223 selected-on-test-set."""

from __future__ import annotations

from analyzer.engine.data_events import LoaderMade, Saved, WeightsKept
from analyzer.engine.loading import loading
from analyzer.engine.program import Program
from analyzer.engine.selection import (
    chosen_by_name,
    decided_by,
    keeps_best,
    measured_on_test,
    named_split,
    split_of,
    stopped_by,
    validating,
)
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.values import ObjectId
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule


class SelectedOnTestSet(Rule):
    """The best epoch is chosen on the test split of the benchmark.

    ## Why it matters
    The maximum over epochs of a noisy number is higher than the number: a checkpoint that is chosen by its test score
    has a test score that nothing else will reach, and that nobody who validates properly can compare with.

    ## Example
    ```python
    test_set = datasets.CIFAR10(root, train=False)
    ...
    acc = evaluate(model, test_loader)
    if acc > best_acc:
        best_acc = acc
        torch.save(model.state_dict(), "best.pt")
    ```

    ## Use instead
    ```python
    train_set, val_set = random_split(datasets.CIFAR10(root, train=True), [45000, 5000])
    ```
    Choose on `val_set`, and evaluate the chosen checkpoint once on the test split.

    ## When it stays quiet
    Of data sets of one's own, only where their files or words name validation and test data apart; that is a note.
    Where test scores are only printed, or the last epoch is saved; where data that are not known are loaded; where what
    is compared is the training loss, or its origin does not show. A note where no validation data are loaded: many
    recipes for small benchmarks keep the best test epoch, and say so. So it is where only its name says that a score is
    that of the test data (``if test_acc > best:``, ``is_best = test_acc > best``), one on validation data is measured
    as well, and nothing is chosen by that alone; where what is called the score on validation data is measured on the
    test data, and the validation data that the function is given are not read; and for an ``EarlyStopping`` that is
    told a score on the test split.

    ## Fix safety
    No automatic fix: how to split is the author's choice.
    """

    code = "PF223"
    name = "selected-on-test-set"
    severity = Severity.WARNING
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """Something is saved where a number measured on the official test split is the best so far."""
        _by_name(program, report)
        _by_another_name(program, report)
        made = {event.loader: event for event in program.of(LoaderMade)}
        splits = {loader: split_of(program, event) for loader, event in made.items()}
        is_official = "test" in splits.values()
        if not any(splits.values()):
            splits = {loader: named_split(program, event) for loader, event in made.items()}
            if "val" not in splits.values():
                return  # what a folder is called says nothing, where no other one is there to choose on
        if "test" not in splits.values() or not set(splits.values()) <= {"train", "part", "val", "test"}:
            return
        has_other = any(
            split == "val" or (split == "part" and loader not in loading(program).trains)
            for loader, split in splits.items()
        )
        if not (has_other or {"train", "part"} & set(splits.values())):
            return
        which = "official test split" if is_official else "test data"
        callback = keeps_best(program)
        for event in validating(program) if callback is not None else ():
            if callback is not None and splits.get(event.loader) == "test":
                report(
                    event.site,
                    f"The framework validates on the {which} and keeps what scores best there: the test "
                    f"score {{is}} no longer an estimate. {_ADVICE[has_other]}",
                    because=[event.trace, start(callback, "the best score is kept")],
                    gaps=[Gap.CONVENTION],
                    severity=None if has_other and is_official else Severity.NOTE,
                )
        tests = {loader: made[loader].site for loader, split in splits.items() if split == "test"}
        _stopped(program, report, tests, f"{which}, and keep its weights: the test score is no longer an estimate. ")
        for saved in (*program.of(Saved), *program.of(WeightsKept)):
            for guard in saved.guards:
                loaders = decided_by(program, guard, saved.calls)
                if loaders and all(splits.get(loader) == "test" for loader in loaders):
                    report(
                        saved.site,
                        f"What is kept here {{is}} chosen by its score on the {which}: the test score is no "
                        f"longer an estimate. {_ADVICE[has_other]}",
                        because=[
                            start(made[min(loaders)].site, "the test split is loaded here"),
                            start(guard.site, "the best so far"),
                        ],
                        gaps=[Gap.CONVENTION],
                        severity=None if has_other and is_official else Severity.NOTE,
                    )


def _stopped(program: Program, report: Report, tests: dict[ObjectId, Site], rest: str) -> None:
    """An object that stops the training, and keeps the best weights, is told a score on the test split."""
    for site, loaders in stopped_by(program):
        if loaders and loaders <= tests.keys():
            report(
                site,
                f"The training {{will stop}} at the best score on the {rest}Tell it a score on validation data.",
                because=[start(tests[min(loaders)], "the test split is loaded here"), start(site, "told here")],
                gaps=[Gap.CONVENTION],
                severity=Severity.NOTE,
            )


def _by_name(program: Program, report: Report) -> None:
    for site, beside in chosen_by_name(program):
        report(
            site,
            "What is kept here {is} chosen by the score on the test data, by its name: the test score is no longer an "
            "estimate. Choose by the score on the validation data, which is measured as well.",
            because=[start(beside, "a score on validation data"), start(site, "the best so far")],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,
        )


def _by_another_name(program: Program, report: Report) -> None:
    for site, name, given in measured_on_test(program):
        report(
            site,
            f"This {{is}} a score on the test data under the name of one on validation data: `{name}`, which is given, "
            f"is not read. Measure on `{name}`.",
            because=[start(given, "the validation data are given here"), start(site, "measured here")],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,
        )


_ADVICE = {
    True: "Choose on the validation data, which are loaded as well.",
    False: "There is no other split to choose on: set a part of the training split aside for validation.",
}
