"""Tokens that one key at a time can hold; on every implementation."""

from __future__ import annotations

import asyncio

import pytest

from dray.store import store
from tests.store.conftest import Opener
from tests.store.steps import commit, delete, keys, put

CLAIM, OTHER = "/claims/a/one", "/claims/a/two"


async def test_token_held_by_another_key_is_refused(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, CLAIM, holds=("gpu-0", "gpu-1"))
        with pytest.raises(store.TokenAlreadyHeld) as refusal:
            await put(target, OTHER, holds=("gpu-2", "gpu-1"))
        assert (refusal.value.token, refusal.value.owner) == ("gpu-1", CLAIM)
        assert await target.get(OTHER) is None
        await put(target, OTHER, holds=("gpu-2",))


async def test_key_may_set_its_own_tokens_again(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, CLAIM, holds=("gpu-0", "gpu-1"))
        await put(target, CLAIM, holds=("gpu-1", "gpu-2"))
        await put(target, OTHER, holds=("gpu-0",))
        for token in ("gpu-1", "gpu-2"):
            with pytest.raises(store.TokenAlreadyHeld):
                await put(target, OTHER, holds=(token,))


async def test_put_without_holds_keeps_them(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, CLAIM, holds=("gpu-0",))
        await put(target, CLAIM, b"changed")
        with pytest.raises(store.TokenAlreadyHeld):
            await put(target, OTHER, holds=("gpu-0",))


async def test_put_with_empty_holds_releases_them(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, CLAIM, holds=("gpu-0",))
        await put(target, CLAIM, holds=())
        await put(target, OTHER, holds=("gpu-0",))


async def test_delete_releases_what_the_key_held(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, CLAIM, holds=("gpu-0", "gpu-1"))
        await delete(target, CLAIM)
        await put(target, OTHER, holds=("gpu-0", "gpu-1"))
        await put(target, CLAIM)
        await delete(target, CLAIM)
        with pytest.raises(store.TokenAlreadyHeld):
            await put(target, CLAIM, holds=("gpu-0",))


async def test_refused_transaction_moves_no_token(open_store: Opener) -> None:
    async with open_store() as target:
        revision = await put(target, CLAIM, holds=("gpu-0",))
        with pytest.raises(store.GuardFailed):
            await delete(target, CLAIM, expect=revision + 1)
        with pytest.raises(store.GuardFailed):
            await put(target, OTHER, expect=revision, holds=("gpu-1",))
        with pytest.raises(store.TokenAlreadyHeld):
            await put(target, OTHER, holds=("gpu-0",))
        await put(target, CLAIM, holds=("gpu-1",))


async def test_token_can_move_within_one_transaction(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, CLAIM, holds=("gpu-0", "gpu-1"))
        await commit(target, store.Put(OTHER, b"", None, ("gpu-0",)), store.Delete(CLAIM))
        with pytest.raises(store.TokenAlreadyHeld) as refusal:
            await put(target, CLAIM, holds=("gpu-0",))
        assert refusal.value.owner == OTHER
        await put(target, CLAIM, holds=("gpu-1",))


async def test_two_keys_of_one_transaction_cannot_hold_one_token(open_store: Opener) -> None:
    async with open_store() as target:
        with pytest.raises(store.TokenAlreadyHeld):
            await commit(
                target,
                store.Put(CLAIM, b"", None, ("gpu-0",)),
                store.Put(OTHER, b"", None, ("gpu-0",)),
            )
        assert await keys(target) == []


async def test_revision_is_checked_before_holds(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, CLAIM, holds=("gpu-0",))
        with pytest.raises(store.GuardFailed):
            await put(target, OTHER, expect=1_000_000, holds=("gpu-0",))


async def test_racing_claims_for_one_device_have_one_winner(open_store: Opener) -> None:
    async with open_store() as target:
        outcomes = await asyncio.gather(
            *(put(target, f"/claims/a/{i}", holds=(f"own-{i}", "gpu-0")) for i in range(20)),
            return_exceptions=True,
        )
        winners = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, int)]
        assert len(winners) == 1
        owner = f"/claims/a/{winners[0]}"
        losers = [outcome for outcome in outcomes if isinstance(outcome, store.TokenAlreadyHeld)]
        assert len(losers) == 19
        assert {(loser.token, loser.owner) for loser in losers} == {("gpu-0", owner)}
        assert await keys(target) == [owner]


async def test_token_that_has_to_be_unheld_is_refused_while_another_key_holds_it(
    open_store: Opener,
) -> None:
    async with open_store() as target:
        await put(target, CLAIM, holds=("gpu-0",))
        share = store.Transaction((store.Put(OTHER, b"", None, ()),), unheld=("gpu-1", "gpu-0"))
        with pytest.raises(store.TokenAlreadyHeld) as refusal:
            await target.commit(share)
        assert (refusal.value.token, refusal.value.owner) == ("gpu-0", CLAIM)
        assert await target.get(OTHER) is None
        await delete(target, CLAIM)
        await target.commit(share)


async def test_token_that_has_to_be_unheld_is_not_taken(open_store: Opener) -> None:
    async with open_store() as target:
        share = store.Transaction((store.Put(OTHER, b"", None, ()),), unheld=("gpu-0",))
        await target.commit(share)
        await put(target, CLAIM, holds=("gpu-0",))


async def test_key_that_gives_its_token_up_may_have_held_it(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, CLAIM, holds=("gpu-0",))
        change = store.Put(CLAIM, b"", None, ())
        await target.commit(store.Transaction((change,), unheld=("gpu-0",)))
        await put(target, OTHER, holds=("gpu-0",))


async def test_holds_last_as_long_as_their_key(open_lasting: Opener) -> None:
    async with open_lasting() as target:
        await put(target, CLAIM, holds=("gpu-0",))
        await put(target, CLAIM, b"changed")
        await put(target, OTHER, holds=("gpu-1",))
        await delete(target, OTHER)
    async with open_lasting() as target:
        with pytest.raises(store.TokenAlreadyHeld) as refusal:
            await put(target, OTHER, holds=("gpu-1", "gpu-0"))
        assert refusal.value.owner == CLAIM
        await put(target, OTHER, holds=("gpu-1",))
