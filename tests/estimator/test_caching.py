"""The rules of torch's caching allocator, each worked out by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from estimator.calibration.caching import Block, Caching
from estimator.units import MIB


def test_small_tensors_share_segments_of_two_mebibytes() -> None:
    cache = Caching()
    for _ in range(4):
        cache.take(MIB // 2)
    assert cache.reserved == 2 * MIB
    cache.take(1)
    assert cache.reserved == 4 * MIB


def test_two_tensors_of_nine_mebibytes_fill_a_segment_of_twenty_and_a_third_needs_another() -> None:
    cache = Caching()
    for _ in range(3):
        cache.take(9 * MIB)
    assert cache.reserved == 40 * MIB
    cache.take(2 * MIB)  # what the first two left
    assert cache.reserved == 40 * MIB


def test_large_tensors_have_segments_of_their_own_in_steps_of_two() -> None:
    cache = Caching()
    cache.take(33 * MIB)
    assert cache.reserved == 34 * MIB
    cache.take(MIB + 1)  # the last mebibyte is not split off
    assert cache.reserved == 54 * MIB


def test_the_smallest_block_that_is_large_enough_is_taken_and_split() -> None:
    cache = Caching()
    wide, narrow = cache.take(64 * MIB), cache.take(32 * MIB)
    cache.give(wide)
    cache.give(narrow)
    cache.take(30 * MIB)  # from the narrow one
    cache.take(64 * MIB)
    assert cache.reserved == 96 * MIB
    cache.take(30 * MIB)  # of the narrow one two are left
    assert cache.reserved == 126 * MIB


def test_free_neighbours_are_one_block_again() -> None:
    cache = Caching()
    whole = cache.take(60 * MIB)
    cache.give(whole)
    parts = [cache.take(20 * MIB) for _ in range(3)]
    for part in (parts[0], parts[2], parts[1]):
        cache.give(part)
    cache.take(60 * MIB)
    assert cache.reserved == 60 * MIB


def test_state_that_is_cut_from_the_first_steps_blocks_makes_the_second_step_reserve_more() -> None:
    cache = Caching()
    activations = [cache.take(64 * MIB) for _ in range(4)]
    for block in activations:
        cache.give(block)
    state = [cache.take(40 * MIB) for _ in range(2)]
    assert cache.reserved == 256 * MIB
    for _ in range(4):
        cache.take(64 * MIB)
    assert cache.reserved == 384 * MIB  # 336 live: 24 are left beside each of the two
    assert len(state) == 2


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40 * MIB)), max_size=60))
def test_it_never_holds_less_than_lives_and_gives_back_what_it_took(steps: list[tuple[bool, int]]) -> None:
    cache = Caching()
    held: list[tuple[Block, int]] = []
    for takes, size in steps:
        if takes or not held:
            held.append((cache.take(size), size))
        else:
            cache.give(held.pop(size % len(held))[0])
        assert cache.reserved >= sum(size for _, size in held)
    before = cache.reserved
    sizes = [size for _, size in held]
    for block, _ in held:
        cache.give(block)
    for size in sorted(sizes, reverse=True)[:1]:
        cache.take(size)
    assert cache.reserved == before
