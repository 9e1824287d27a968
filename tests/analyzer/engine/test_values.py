"""The laws of values and states: a join is commutative, idempotent and monotone, and keeps the better witness."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.engine.state import Base, State, merge_two, same
from analyzer.engine.trace import Gap, Site, confidence, start
from analyzer.engine.values import (
    MAX_CASES,
    MAX_HEIGHT,
    MAX_WEIGHT,
    Method,
    Partial,
    Scalar,
    Stream,
    Tensor,
    Tuple,
    Unknown,
    Value,
    const,
    join,
    nested,
    union,
)
from analyzer.findings import Confidence

SITES = st.builds(Site, st.sampled_from(["a.py", "b.py"]), st.integers(0, 5))
ATOMS: st.SearchStrategy[Value] = st.one_of(
    st.sampled_from([1, 2, True, "x", None, 1.0]).map(const),
    st.sampled_from(["number", "str"]).map(Scalar),
    st.builds(Tensor, st.sampled_from(["yes", "no", "maybe"]), st.frozensets(SITES, max_size=3)),
    st.builds(Unknown, st.sampled_from(["x", "y"])),
)
VALUES = st.one_of(ATOMS, st.lists(ATOMS, min_size=1, max_size=3).map(lambda items: Tuple(tuple(items))))


@given(VALUES, VALUES)
def test_join_is_commutative(one: Value, other: Value) -> None:
    assert join(one, other) == join(other, one)


@given(VALUES)
def test_join_is_idempotent(one: Value) -> None:
    assert join(one, one) == one


@given(VALUES, VALUES)
def test_join_is_monotone(one: Value, other: Value) -> None:
    """What is joined in once changes nothing when joined in again."""
    both = join(one, other)
    assert join(both, one) == both
    assert join(both, other) == both


@given(st.lists(st.integers(), min_size=MAX_CASES + 1, max_size=40, unique=True))
def test_too_many_cases_widen_to_a_scalar(numbers: list[int]) -> None:
    assert Scalar("number") == union(const(number) for number in numbers)


@given(st.dictionaries(st.sampled_from("abc"), VALUES), st.dictionaries(st.sampled_from("abc"), VALUES))
def test_states_merge_commutatively(one: dict[str, Value], other: dict[str, Value]) -> None:
    left = State(Base(), {0: dict(one)})
    right = State(Base(), {0: dict(other)})
    assert same(merge_two(left, right), merge_two(right, left))


def test_kinds_of_constants_stay_apart() -> None:
    assert len(union([const(1), const(True), const(1.0)]).cases) == 3


def test_an_absent_engine_fact_is_no_on_that_path() -> None:
    switched = State(Base(), {1: {"is eval": const(True)}})
    assert merge_two(switched, State(Base())).flag(1, "is eval") is None


def test_the_witness_with_fewer_gaps_survives() -> None:
    sure, guess = start(Site("a.py", 9), "seen"), start(Site("a.py", 1), "guessed", Gap.CONVENTION)
    for pair in ((sure, guess), (guess, sure)):
        assert join(Tensor("yes", trace=pair[0]), Tensor("yes", trace=pair[1])).trace is sure


def test_confidence_is_the_worst_gap() -> None:
    assert confidence([]) is Confidence.CERTAIN
    assert confidence([Gap.CONVENTION]) is Confidence.LIKELY
    assert confidence([Gap.CONVENTION, Gap.UNSEEN]) is Confidence.POSSIBLE


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["tuple", "both", "stream", "method", "partial"]), min_size=20, max_size=30), VALUES)
def test_values_in_values_stay_small_enough_to_compare(steps: list[str], value: Value) -> None:
    """Thirty lines that each use the last value twice would say a tree of 2**30 atoms."""
    made = value
    for step in steps:
        if step == "tuple":
            made = Tuple((made, made))
        elif step == "both":
            made = join(Tuple((made, value)), Tuple((value, made)))
        elif step == "stream":
            made = join(made, Stream(made))
        elif step == "method":
            made = join(made, Method(made, "filter"))
        else:
            made = Partial(made, (made, value), (("key", made),))
        assert sum(1 for _ in nested(made, 99)) <= MAX_WEIGHT * MAX_CASES
        assert hash(made) == hash(made)


def test_what_nests_too_deeply_keeps_its_graph() -> None:
    made: Value = Tensor("yes", frozenset({Site("a.py", 1)}))
    for _ in range(3 * MAX_HEIGHT):
        made = Tuple((made, const(1)))
    found = [case for case in nested(made, 99) if isinstance(case, Unknown)]
    assert found
    assert found[0].reason == "values nest too deeply"
    assert any(case.roots for case in nested(made, 99) if isinstance(case, (Unknown, Tensor)))


def test_a_long_table_keeps_its_rows() -> None:
    rows = Tuple(tuple(Tuple((const(row), const(str(row)))) for row in range(2 * MAX_WEIGHT)))
    assert rows.items[-1] == Tuple((const(2 * MAX_WEIGHT - 1), const(str(2 * MAX_WEIGHT - 1))))
