"""Masks: what a server sees of a sum, what it can and cannot change, and the files of keys."""

from __future__ import annotations

import copy
import hashlib
import itertools
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from riemdp import InvalidArgument, RiemdpError, noise_source
from tests.seam import Masks, original, plant
from tests.statistical import ALPHA, gaussian_p_value

AGREEMENT = hashlib.sha256(b"one").hexdigest()
NAMES = ("clinic", "hospital", "practice")
PLAN = Masks.SharedSum(3, 1, 4, 2.0, 1.5)
VALUES = {name: np.array([3.0, -1.0, 0.5, 40.0]) * (i + 1) for i, name in enumerate(NAMES)}


def parties(names: tuple[str, ...] = NAMES) -> dict[str, Masks.Keys]:
    return {name: Masks.Keys.new(name) for name in names}


def roster_of(keys: dict[str, Masks.Keys]) -> Masks.Roster:
    agreed = {name: k.long_term for name, k in keys.items()}
    return Masks.Roster.of(None, agreed, {name: k.fresh for name, k in keys.items()}, least=1)


def question(
    keys: dict[str, Masks.Keys], number: int = 0, context: bytes = b"point"
) -> Masks.Question:
    return Masks.Question(AGREEMENT, number, roster_of(keys), context)


def integers(values: np.ndarray) -> np.ndarray:
    """One party's sum on the grid."""
    return np.trunc(values / PLAN.grid).astype(np.int64)


def noisy_steps(values: np.ndarray, source) -> np.ndarray:
    """What a party sends before it is masked."""
    return integers(values) + PLAN.noise(source)


# ------------------------------------------------------------------------------------------------
# the transcript: what the server sees can be made from the sums alone
def transcript(rounds: int, noisy: Callable[..., np.ndarray] | None = None) -> np.ndarray:
    """Words (rounds, parties, coordinates) of one run, from fixed values."""
    keys, source = parties(), noise_source(8)
    rows = []
    for t in range(rounds):
        asked = question(keys, t)
        rows.append(
            [
                Masks.masked(
                    (noisy or noisy_steps)(VALUES[n], source),
                    keys[n],
                    asked,
                )
                for n in NAMES
            ]
        )
    return np.array(rows)


def simulated(sums: np.ndarray) -> np.ndarray:
    """The simulator: words from the sums (rounds, coordinates) and nothing else."""
    generator = noise_source(9).generator
    words = generator.integers(0, 2**64, (len(sums), 3, sums.shape[1]), dtype=np.uint64)
    words[:, 2] = sums.view(np.uint64) - words[:, 0] - words[:, 1]
    return words


def uniform_p_value(words: np.ndarray) -> float:
    """Chi-square of the highest byte, and of each of eight low bits."""
    high = np.bincount((words.ravel() >> np.uint64(56)).astype(int), minlength=256)
    p = [float(stats.chisquare(high).pvalue)]
    for bit in range(8):
        ones = int(np.sum((words.ravel() >> np.uint64(bit)) & np.uint64(1)))
        p.append(float(stats.binomtest(ones, words.size).pvalue))
    return min(1.0, len(p) * min(p))


def transcript_p_value(words: np.ndarray) -> float:
    """How well a transcript agrees with the simulator's: every proper part of a round is uniform,
    so is every difference of rounds, and the sums have the stated distribution.
    """
    rounds, count, size = words.shape
    parts = [
        np.sum(words[:, list(subset)], axis=1, dtype=np.uint64)
        for length in range(1, count)
        for subset in itertools.combinations(range(count), length)
    ]
    parts += [part[1:] - part[:-1] for part in list(parts)]
    p = [uniform_p_value(part) for part in parts]
    sums = np.sum(words, axis=1, dtype=np.uint64).view(np.int64)
    expected = sum(integers(VALUES[n]) for n in NAMES)
    p.append(gaussian_p_value((sums - expected).astype(float), PLAN.share * np.sqrt(count)))
    assert sums.shape == (rounds, size)
    return min(1.0, len(p) * min(p))


ROUNDS = 300


def test_the_servers_view_is_simulated_from_the_sums() -> None:
    words = transcript(ROUNDS)
    assert transcript_p_value(words) > ALPHA
    sums = np.sum(words, axis=1, dtype=np.uint64).view(np.int64)
    assert transcript_p_value(simulated(sums)) > ALPHA


def test_planted_leaks_fail_the_transcript_test(monkeypatch: pytest.MonkeyPatch) -> None:
    # the noise of one party is left out
    def without(values: np.ndarray, source) -> np.ndarray:
        first = np.array_equal(values, VALUES[NAMES[0]])
        return integers(values) if first else noisy_steps(values, source)

    assert transcript_p_value(transcript(ROUNDS, without)) < ALPHA
    # the number of the round is left out: masks are used again
    with monkeypatch.context() as patched:
        common = original("words of a mask")
        plant(
            patched,
            "words of a mask",
            lambda asked, count: common(
                Masks.Question(asked.agreement, 0, asked.roster, asked.context), count
            ),
        )
        assert transcript_p_value(transcript(ROUNDS)) < ALPHA
    # all pairs use one mask again
    with monkeypatch.context() as patched:
        key = original("key of a mask")
        plant(
            patched, "key of a mask", lambda secret, common, *names: key(b"all", common, "a", "b")
        )
        assert transcript_p_value(transcript(ROUNDS)) < ALPHA
    # one mask for all coordinates
    with monkeypatch.context() as patched:
        mask = original("a mask")
        plant(patched, "a mask", lambda key, count: np.repeat(mask(key, 1), count))
        words = transcript(ROUNDS)
        assert uniform_p_value(words[:, :, 1:] - words[:, :, :1]) < ALPHA
    # no masks at all
    with monkeypatch.context() as patched:
        plant(patched, "a mask", lambda key, count: np.zeros(count, np.uint64))
        assert transcript_p_value(transcript(ROUNDS)) < ALPHA


def collisions(masks: int, bits: int | None = None) -> int:
    """How many masks of `masks` rounds are the same, with keys folded to so many bits."""
    keys = parties(NAMES[:2])
    secret = keys[NAMES[0]].shared_with(roster_of(keys).members[1])
    roster, seen = roster_of(keys), set()
    salt, info = original("words of a mask")(Masks.Question(AGREEMENT, 0, roster, b""), 1)
    for t in range(masks):
        key = original("key of a mask")(secret, (salt, info + t.to_bytes(8, "big")), *NAMES[:2])
        if bits is not None:
            seed = int.from_bytes(key, "big") % 2**bits
            key = hashlib.sha256(seed.to_bytes(8, "big")).digest()
        seen.add(bytes(original("a mask")(key, 1)))
    return masks - len(seen)


def test_masks_do_not_repeat() -> None:
    """20 bits stand for 32 here: the same test with 32 bits is slow."""
    assert collisions(6000) == 0
    assert collisions(6000, 20) > 0


@pytest.mark.slow
def test_a_seed_of_32_bits_is_seen() -> None:
    assert collisions(300_000) == 0
    assert collisions(300_000, 32) > 0


def test_every_byte_of_a_key_is_used_and_follows_the_round() -> None:
    keys = parties(NAMES[:2])
    roster = roster_of(keys)
    secret = keys[NAMES[0]].shared_with(roster.members[1])
    found = [
        original("key of a mask")(
            secret,
            original("words of a mask")(Masks.Question(AGREEMENT, t, roster, b""), 1),
            *NAMES[:2],
        )
        for t in range(64)
    ]
    assert all(len(key) == 32 for key in found)
    assert min(len({key[i] for key in found}) for i in range(32)) > 32
    # no byte of a key is a copy of another one, as in a key that was stretched from a short seed
    assert len({bytes(key[i] for key in found) for i in range(32)}) == 32
    first = original("a mask")(found[0], 3)
    for i in range(32):
        changed = bytearray(found[0])
        changed[i] ^= 1
        assert not np.array_equal(first, original("a mask")(bytes(changed), 3))


# ------------------------------------------------------------------------------------------------
# sums, and answers that have none
def test_masks_cancel_in_the_sum_of_all_and_nowhere_else() -> None:
    for names in (NAMES[:1], NAMES[:2], NAMES, (*NAMES, "ward", "zoo")):
        keys = parties(names)
        values = {n: np.array([-5, 2**40, i], dtype=np.int64) for i, n in enumerate(names)}
        sent = [Masks.masked(values[n], keys[n], question(keys)) for n in names]
        assert np.array_equal(Masks.total(sent), sum(values.values()))
        assert all(Masks.is_words(words, 3) for words in sent)
        if len(names) > 1:
            assert np.max(np.abs(Masks.total(sent[:-1]).astype(float))) > 2.0**50


@pytest.mark.parametrize("other", ["number", "context", "roster", "agreement", "fresh", "stranger"])
def test_answers_to_different_questions_have_no_sum(other: str) -> None:
    keys = parties()
    asked = question(keys)
    theirs = {
        "number": question(keys, 1),
        "context": question(keys, context=b"elsewhere"),
        "agreement": Masks.Question(hashlib.sha256(b"two").hexdigest(), 0, asked.roster, b"point"),
        "roster": question({n: keys[n] for n in NAMES[:2]}),
        "fresh": question(keys | {"practice": Masks.Keys("practice", b"\1" * 32, b"\2" * 32)}),
        "stranger": question(keys | {"stranger": Masks.Keys.new("stranger")}),
    }[other]
    values = np.zeros(6, dtype=np.int64)
    sent = [Masks.masked(values, keys[n], asked if n != NAMES[0] else theirs) for n in NAMES]
    assert np.max(np.abs(Masks.total(sent).astype(float))) > 2.0**50
    assert PLAN.value(Masks.total(sent)[:4], 1.0) is None


def test_rosters_in_a_ring_have_no_sum() -> None:
    """Four parties are told four rosters, so that each pair is in none or in two of them: if masks
    did not depend on the roster, they would cancel in a sum over none of the rosters.
    """
    keys = parties(("a", "b", "c", "d"))
    told = {"a": "abc", "b": "abd", "c": "acd", "d": "bcd"}
    zero = np.zeros(8, dtype=np.int64)
    sent = [Masks.masked(zero, keys[n], question({m: keys[m] for m in told[n]})) for n in "abcd"]
    assert np.max(np.abs(Masks.total(sent).astype(float))) > 2.0**50


def test_a_server_with_keys_of_its_own_cannot_take_a_mask_off() -> None:
    """It puts its fresh key in the place of a site's. The mask also needs the long-term key."""
    keys, server = parties(NAMES[:2]), Masks.Keys.new(NAMES[1])
    first, second = NAMES[:2]
    honest = {n: k.long_term for n, k in keys.items()}
    roster = Masks.Roster.of(
        keys[first], honest, {first: keys[first].fresh, second: server.fresh}, least=2
    )
    zero = np.zeros(8, dtype=np.int64)
    words = Masks.masked(zero, keys[first], Masks.Question(AGREEMENT, 0, roster, b""))
    guessed = Masks.masked(zero, server, Masks.Question(AGREEMENT, 0, roster, b""))
    assert np.max(np.abs(Masks.total([words, guessed]).astype(float))) > 2.0**50
    # with the server's long-term key in the agreement it could: the test can fail
    broken = {**honest, second: server.long_term}
    roster = Masks.Roster.of(keys[first], broken, dict(roster_keys(roster)), least=2)
    words = Masks.masked(zero, keys[first], Masks.Question(AGREEMENT, 0, roster, b""))
    guessed = Masks.masked(zero, server, Masks.Question(AGREEMENT, 0, roster, b""))
    assert np.array_equal(Masks.total([words, guessed]), zero)


def test_a_server_with_keys_of_its_own_that_steals_files_later_opens_nothing() -> None:
    """It puts its fresh keys in the place of all others, keeps what the site sent, and steals the
    site's long-term key when the site's fresh key is gone. Of each mask it lacks a product.
    """
    from cryptography.hazmat.primitives.asymmetric import x25519

    stolen, relayed = b"\1" * 32, b"\2" * 32
    for name in ("clinic", "practice"):  # before and after the other in the order of names
        site, other = Masks.Keys(name, stolen, b"\3" * 32), Masks.Keys.new("hospital")
        told = Masks.Member(
            "hospital", other.long_term, Masks.Keys("server", relayed, relayed).fresh
        )
        publics = site.long_term, site.fresh, told.long_term, told.fresh
        known = {
            x25519.X25519PrivateKey.from_private_bytes(private).exchange(
                x25519.X25519PublicKey.from_public_bytes(public)
            )
            for private, public in itertools.product((stolen, relayed), publics)
        }
        secret = site.shared_with(told)
        products = [secret[i : i + 32] for i in range(0, len(secret), 32)]
        assert set(products[:2]) <= known  # keys of one kind with each other would not be enough
        assert len(set(products) - known) == 1


def roster_keys(roster: Masks.Roster) -> list[tuple[str, bytes]]:
    return [(member.name, member.fresh) for member in roster.members]


def test_rosters_that_a_site_refuses() -> None:
    keys = parties()
    agreed = {n: k.long_term for n, k in keys.items()}
    fresh = {n: k.fresh for n, k in keys.items()}
    own = keys["clinic"]

    def check(sent: object, least: int = 2, **changed: bytes) -> Masks.Roster:
        return Masks.Roster.of(own, agreed | changed, sent, least=least)  # type: ignore[arg-type]

    assert [m.name for m in check(fresh).members] == sorted(NAMES)
    assert len(check({n: fresh[n] for n in NAMES[:2]}).members) == 2
    for wrong in (
        {n: fresh[n] for n in NAMES[:1]},  # too few
        {n: fresh[n] for n in NAMES[1:]},  # without the site itself
        fresh | {"clinic": bytes(32)},  # another key for the site
        fresh | {"stranger": bytes(32)},
        fresh | {"practice": b"short"},
        fresh | {"practice": "text"},
        fresh | {7: bytes(32)},
        None,
        list(fresh),
    ):
        with pytest.raises(InvalidArgument, match="roster"):
            check(wrong)
    with pytest.raises(InvalidArgument, match="roster"):
        check(fresh, clinic=bytes(32))
    low = Masks.Roster(
        (
            Masks.Member("clinic", own.long_term, own.fresh),
            Masks.Member("low", bytes(32), bytes(32)),
        )
    )
    with pytest.raises(InvalidArgument, match="unusable public key"):
        own.meet(low)
    for bad in ({"agreement": "ab"}, {"number": -1}):
        told = {"agreement": AGREEMENT, "number": 0, "roster": low, "context": b""} | bad
        with pytest.raises(InvalidArgument, match=next(iter(bad))):
            Masks.Question(**told)  # type: ignore[arg-type]


def test_the_digest_of_a_roster_is_of_all_of_it() -> None:
    member = Masks.Member("ab", b"\1" * 32, b"\2" * 32)
    changed = [
        (),
        (member, Masks.Member("c", bytes(32), bytes(32))),
        (Masks.Member("a", b"\1" * 32, b"\2" * 32),),
        (Masks.Member("ab", b"\3" * 32, b"\2" * 32),),
        (Masks.Member("ab", b"\1" * 32, b"\3" * 32),),
    ]
    digests = {Masks.Roster(members).digest for members in [(member,), *changed]}
    assert len(digests) == len(changed) + 1


# ------------------------------------------------------------------------------------------------
# files of keys
def test_keys_in_files(tmp_path: Path) -> None:
    path, run = tmp_path / "key.json", tmp_path / "run.json"
    public = Masks.new_key_file(path)
    assert public == Masks.public_key(path)
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(RiemdpError, match="not overwritten"):
        Masks.new_key_file(path)
    first = Masks.Keys.read("clinic", path, run, AGREEMENT)
    again = Masks.Keys.read("clinic", path, run, AGREEMENT)
    assert first.long_term.hex() == public
    assert first.fresh == again.fresh
    assert run.stat().st_mode & 0o077 == 0
    with pytest.raises(RiemdpError, match="another run"):
        Masks.Keys.read("clinic", path, run, hashlib.sha256(b"two").hexdigest())
    Masks.forget(run)
    assert Masks.Keys.read("clinic", path, run, AGREEMENT).fresh != first.fresh
    path.write_text("{}")
    with pytest.raises(RiemdpError, match="holds no"):
        Masks.public_key(path)


def test_private_keys_are_shown_nowhere() -> None:
    keys = Masks.Keys("clinic", b"\7" * 32, b"\x09" * 32)
    assert repr(keys) == "Keys('clinic')"
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            act(keys)


def test_replies_that_are_no_words() -> None:
    right = np.zeros(3, dtype=np.uint64)
    assert Masks.is_words(right, 3)
    for wrong in (None, [0, 0, 0], right[:2], right.astype(float), right[None], "words"):
        assert not Masks.is_words(wrong, 3)
