"""The file that all parties sign: what it stands for, its fingerprint, every mistake in it; and a
server that lies to sites which have signed it.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

import riemdp
from riemdp import DPRGD, Ball, Budget, InvalidArgument, Ledger, PriRFed, problems
from riemdp.federated import Agreement, Message, Refused, Setup, Site, answer
from tests.federated.heard import came
from tests.seam import Commands, Servers, Sites

TEXT = """
run = "spring"
[space]
name = "SPDLogEuclidean"
k = 2
[problem]
name = "frechet_mean"
[domain]
center = "diag:2.0"
radius = 1.5
[local]
name = "DPRGD"
steps = 1
learning-rate = 0.25
sensitivity = "domain"
[rounds]
rounds = 6
agents-per-round = 2
participation = "round-robin"
[privacy]
epsilon = 2.0
delta = 1e-5
[[site]]
name = "north"
[[site]]
name = "south"
[[site]]
name = "west"
"""
SITE = """
name = "{name}"
agreement = "{fingerprint}"
[limits]
answers = 3
answer = {{ epsilon = 1.4, delta = 1e-5 }}
noise = 1.5
total = {{ epsilon = 5.0, delta = 1e-5 }}
[files]
agreement = "agreement.toml"
[data]
file = "records.npy"
"""
NAMES = ("north", "south", "west")
START = 2.0 * np.eye(2)


def _records(n=40):
    rows = np.random.default_rng(3).normal(size=(n, 2, 2)) / 3
    logs = rows + np.swapaxes(rows, 1, 2)
    values, vectors = np.linalg.eigh(logs)
    return np.einsum("nij,nj,nkj->nik", vectors, 2 * np.exp(values), vectors)


def _agreement(folder, text=TEXT):
    (folder / "agreement.toml").write_text(text)
    return Agreement.read(folder / "agreement.toml")


def _site(folder, name="north", *, fingerprint=None, text=SITE):
    agreed = Agreement.read(folder / "agreement.toml")
    path = folder / f"{name}.toml"
    path.write_text(text.format(name=name, fingerprint=fingerprint or agreed.fingerprint))
    return Site.read(path)


def test_a_file_stands_for_the_same_settings_as_the_code(tmp_path):
    agreed = _agreement(tmp_path)
    ball = Ball(START, 1.5)
    space = riemdp.SPDLogEuclidean(2)
    prirfed = PriRFed(
        problems.frechet_mean(space, ball=ball),
        DPRGD(1, 0.25, sensitivity="domain"),
        rounds=6,
        agents_per_round=2,
        participation="round-robin",
    )
    by_hand = Setup(prirfed, ball.center, Budget(2.0, 1e-5), 3)
    assert agreed.terms.text == by_hand.text
    assert agreed.terms.sigma(40) == by_hand.sigma(40)
    assert agreed.terms.names == NAMES
    assert (agreed.run, agreed.terms.shares_noise) == ("spring", False)


def test_the_fingerprint_is_that_of_the_bytes(tmp_path):
    agreed = _agreement(tmp_path)
    content = (tmp_path / "agreement.toml").read_bytes()
    assert agreed.fingerprint == hashlib.sha256(content).hexdigest() == agreed.terms.fingerprint
    other = _agreement(tmp_path, TEXT.replace('"spring"', '"summer"'))  # a second run
    assert other.fingerprint != agreed.fingerprint
    assert other.terms.fingerprint != agreed.terms.fingerprint
    assert other.terms.text == agreed.terms.text


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("run =", "rum =", "'rum'"),
        ('run = "spring"', "", "'run'"),
        ('run = "spring"', 'run = ""', "run = ''"),
        ("SPDLogEuclidean", "SPDLogEuklid", "SPDLogEuclidean"),
        ("k = 2", "k = 0", r"\[space\]"),
        ("k = 2", "m = 2", "'m' in"),
        ("k = 2", "", "lacks 'k'"),
        ("frechet_mean", "Problem", "frechet_mean"),
        ("frechet_mean", "principal_eigenvector", "space of its own"),
        ('[space]\nname = "SPDLogEuclidean"\nk = 2', "", r"needs a table \[space\]"),
        ("radius = 1.5", "radius = -1.5", "radius"),
        ("radius = 1.5", "radios = 1.5", "radios"),
        ("radius = 1.5", "", "radius"),
        ("diag:2.0", "diag:-2.0", "center"),
        ("diag:2.0", "the middle", "center"),
        ("DPRGD", "SGD", "DPRGD"),
        ("learning-rate", "learning-rat", "learning_rat"),
        ("rounds = 6", "rounds = 0", "rounds"),
        ("agents-per-round = 2", "agents-per-round = 4", "agents"),
        ("agents-per-round = 2", "", "agents-per-round"),
        ("epsilon = 2.0", "epsilon = -2.0", "epsilon"),
        ("delta = 1e-5", "", "delta"),
        ("delta = 1e-5", 'delta = 1e-5\nnoise = "none"', "noise"),
        ("delta = 1e-5", "delta = 1e-5\ntolerated = 1", "tolerated"),
        ("delta = 1e-5", 'delta = 1e-5\nnoise = "shared"', "agents_per_round must be as many"),
        ("delta = 1e-5", 'delta = 1e-5\nnoise = "shared"\ntolerated = 3', "tolerated"),
        ('name = "south"', 'name = "north"', "one name"),
        ('name = "south"', 'name = ""', "`name` = ''"),
        ('name = "south"', 'name = "south"\nkey = "12"', "key"),
        ("[privacy]", "[privacy", "cannot be read"),
        ("[privacy]", "start = 1\n[privacy]", "start"),
    ],
)
def test_a_mistake_in_the_agreement_is_named(tmp_path, old, new, named):
    assert old in TEXT
    with pytest.raises(InvalidArgument, match=named) as failure:
        _agreement(tmp_path, TEXT.replace(old, new, 1))
    assert "agreement.toml" in str(failure.value)


def test_problems_without_a_space_and_other_starts(tmp_path):
    text = TEXT[: TEXT.index("[space]")] + TEXT[TEXT.index("[local]") :]
    text = text.replace('run = "spring"', 'run = "axis"\nstart = [0.0, 1.0, 0.0]')
    text = text.replace('sensitivity = "domain"', "clip-norm = 1.0")
    text += '[problem]\nname = "principal_eigenvector"\nn = 3\n'
    agreed = _agreement(tmp_path, text)
    np.testing.assert_array_equal(agreed.terms.initial, np.eye(3)[1])
    assert agreed.terms.prirfed.problem.manifold == riemdp.Sphere(3)
    with pytest.raises(InvalidArgument, match="start"):
        _agreement(tmp_path, text.replace("[0.0, 1.0, 0.0]", "[0.0, 1.1, 0.0]"))


# ------------------------------------------------------------------------------------------------
# a site that has signed
def test_a_site_reads_what_it_has_signed(tmp_path):
    agreed = _agreement(tmp_path)
    site = _site(tmp_path)
    assert site.agreed == agreed
    assert site.least_noise == 1.5
    assert site.data == {"file": str(tmp_path / "records.npy")}
    assert site.status() == (
        "north: 0 of 3 answers; all runs have cost a record at most epsilon 0 of 5 (delta 1e-05)"
    )


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('agreement = "{fingerprint}"', "", "sign it with"),
        ("{fingerprint}", "0" * 64, "another version"),
        ("{name}", "east", "north, south, west"),
        ("total", "# total", r"\[limits\] total"),
        ("noise = 1.5", "noise = 0.0", r"\[limits\] noise"),
        ("answers = 3", "answers = -3", r"\[limits\] answers"),
        ("[data]", "[run]\nrounds = 6\n[data]", r"\[run\]"),
        ('"agreement.toml"', '"agreements.toml"', "cannot be read"),
    ],
)
def test_a_mistake_in_a_signed_sites_file_is_named(tmp_path, old, new, named):
    _agreement(tmp_path)
    assert old in SITE
    with pytest.raises(InvalidArgument, match=named):
        _site(tmp_path, text=SITE.replace(old, new, 1))


def test_an_agreement_that_was_changed_later_is_refused(tmp_path):
    first = _agreement(tmp_path).fingerprint
    _agreement(tmp_path, TEXT.replace("epsilon = 2.0", "epsilon = 200.0"))
    with pytest.raises(InvalidArgument, match="another version"):
        _site(tmp_path, fingerprint=first)


# ------------------------------------------------------------------------------------------------
# a server that lies to all of them
def _three(folder):
    """Three sites in folders of their own, each of which has answered round 0."""
    found = []
    for name in NAMES:
        (folder / name).mkdir()
        _agreement(folder / name)
        found.append(_site(folder / name, name))
        _ask(found[-1], 0)
    return found


@pytest.fixture
def sites(tmp_path):
    return _three(tmp_path)


@pytest.fixture(scope="module")
def lied_to(tmp_path_factory):
    """For all lies together, because none may leave a trace."""
    return _three(tmp_path_factory.mktemp("sites"))


SIGMA = 0.0  # noise for 40 records; computed once


@pytest.fixture(autouse=True, scope="module")
def noise(tmp_path_factory):
    global SIGMA
    found = _agreement(tmp_path_factory.mktemp("noise")).terms.sigma(40)
    assert found is not None
    SIGMA = found


def test_the_files_of_the_documentation_are_whole(tmp_path):
    page = Path(riemdp.__file__).parents[2] / "docs" / "howto" / "federated.md"
    agreement, site, search = re.findall(
        r"```toml[^\n]*\n(.*?)```", page.read_text(), flags=re.DOTALL
    )
    agreed = _agreement(tmp_path, agreement)
    assert (agreed.terms.agents, agreed.terms.answers) == (3, 10)
    (tmp_path / "site.toml").write_text(site.replace("44c0...", agreed.fingerprint))
    read = Site.read(tmp_path / "site.toml")
    assert (read.name, read.most_answers, read.least_noise) == ("hospital-0", 10, 1.5)
    (tmp_path / "search.toml").write_text(search)
    found = Agreement.read(tmp_path / "search.toml")
    assert (found.terms.release, found.terms.variance, sum(found.terms.sizes.values())) == (
        "mean",
        0.2,
        1198,
    )


def _ask(site, round_number, point=START, agreement="", sigma=None):
    assert site.agreed is not None
    setup = site.agreed.terms
    return answer(
        site,
        setup,
        _records(),
        Message(
            point,
            round_number,
            agreement=setup.fingerprint if agreement == "" else agreement,
        ),
        sigma=SIGMA if sigma is None else sigma,
    )


def _spent(site):
    """What the site's two files hold, and the epsilon of its ledger."""
    book = site.answers.with_name(f"{site.name}-ledger.json")
    answered = [a["round"] for a in json.loads(site.answers.read_text())["answers"]]
    return answered, Ledger.open(book).charges, Ledger.open(book).spent.epsilon(1e-5)


LIES = {
    "another agreement": {"agreement": "0" * 64},
    "no agreement": {"agreement": None},
    "an agreement that is no text": {"agreement": 7},
    "a replayed round": {"round_number": 0},
    "a round that does not exist": {"round_number": 6},
    "a negative round": {"round_number": -1},
    "a round that is no number": {"round_number": "1"},
    "true for a round": {"round_number": True},
    "NaN": {"point": np.full((2, 2), np.nan)},
    "infinity": {"point": np.diag([np.inf, 1.0])},
    "no point": {"point": None},
    "the wrong shape": {"point": np.eye(3)},
    "a batch": {"point": np.eye(2)[None]},
    "single precision": {"point": np.eye(2, dtype=np.float32)},
    "off the manifold": {"point": np.diag([1.0, -1.0])},
    "not symmetric": {"point": np.array([[2.0, 0.5], [0.0, 2.0]])},
    "outside the ball": {"point": 2.0 * np.exp(1.1) * np.eye(2)},
    "far outside the ball": {"point": 1e6 * np.eye(2)},
    "too small a noise": {"sigma": 1e-3},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_every_site_refuses_a_lie_and_nothing_is_spent(lied_to, lie):
    before = [_spent(site) for site in lied_to]
    for site in lied_to:
        with pytest.raises(Refused, match=r"declined: .*Nothing was spent"):
            _ask(site, **{"round_number": 1} | lie)
    assert [_spent(site) for site in lied_to] == before
    assert [answered for answered, *_ in before] == [[0]] * 3


def test_the_least_noise_is_the_sites(tmp_path):
    """The multiplier of an answer is sigma over the sensitivity of one step, 4 r / n here."""
    _agreement(tmp_path)
    multiplier = SIGMA / (4 * 1.5 / 40)
    least = SITE.replace("noise = 1.5", f"noise = {multiplier * 1.001}")
    with pytest.raises(Refused, match="less noise than this site allows"):
        _ask(_site(tmp_path, text=least), 0)
    assert _site(tmp_path, text=least).rounds_answered() == ()
    _ask(_site(tmp_path, text=SITE.replace("noise = 1.5", f"noise = {multiplier * 0.999}")), 0)


def test_sixty_questions_cost_no_more_than_the_cap(sites):
    for site in sites:
        answered = 0
        for k in [*range(6)] * 10:
            try:
                _ask(site, k)
                answered += 1
            except Refused:
                pass
        rounds, charges, epsilon = _spent(site)
        assert (answered, rounds, charges) == (2, [0, 1, 2], 3)  # the cap is 3, and 0 had one
        assert epsilon <= 5.0
        again = Site.read(site.answers.with_name(f"{site.name}.toml"))  # after a restart
        with pytest.raises(Refused, match="as often as it agreed to"):
            _ask(again, 3)


def test_a_point_on_the_edge_of_the_ball_is_an_honest_servers(sites):
    for site in sites:
        _ask(site, 1, point=2.0 * np.exp(1.5 / np.sqrt(2)) * np.eye(2))


def test_the_servers_own_point_stays_where_sites_answer(tmp_path):
    from riemdp.federated import Coordinator, plan_federated
    from riemdp.randomness import noise_source

    setup = _agreement(tmp_path).terms
    plan = plan_federated(setup.prirfed, [40] * 3, setup.budget)
    server = Coordinator(
        setup.prirfed, plan, dict.fromkeys(NAMES, 40), START, setup.budget, noise_source(1)
    )
    far = 2.0 * np.exp(3.0) * np.eye(2)  # valid, and far from the ball
    server.close(came(server, dict.fromkeys(server.invite(NAMES), far)))
    assert not Sites.is_outside(setup.prirfed, server.value)
    assert float(setup.prirfed.problem.manifold.dist(START, server.value)) > 1.49


def test_a_run_that_was_started_with_other_settings_is_told_so(tmp_path):
    agreed = _agreement(tmp_path)
    same = {"epsilon": 2.0, "rounds": 6, "agents": 3, "learning_rate": 0.25, "timeout": 9.0}
    assert agreed.differences(same) == ()
    other = {"epsilon": 1e6, "rounds": 6, "agents-per-round": 1, "agents": 10, "timeout": 9.0}
    assert agreed.differences(other) == ("agents", "agents-per-round", "epsilon")


# ------------------------------------------------------------------------------------------------
# the commands
def _run(*words):
    from typer.testing import CliRunner

    done = CliRunner().invoke(Commands.app, ["federated", *map(str, words)])
    return done.exit_code, done.output


def test_the_commands_of_a_site(tmp_path):
    agreed = _agreement(tmp_path)
    code, said = _run(
        "agree", tmp_path / "agreement.toml", "--records", 40, "--write-site", "north", "--json"
    )
    told = json.loads(said)
    assert code == 0
    assert told["fingerprint"] == agreed.fingerprint
    assert told["terms"] == agreed.terms.text
    assert told["all answers cost"].startswith("epsilon 1.995,")
    site = Site.read(tmp_path / "north.toml")
    assert site.agreed == agreed
    assert site.most_answers == agreed.terms.answers == 4
    _ask(site, 2)
    code, said = _run("status", tmp_path / "north.toml")
    assert code == 0
    assert "1 of 4 answers, the last to round 2 on" in said
    code, said = _run("status", tmp_path / "north.toml", "--json")
    assert json.loads(said)["rounds_answered"] == [2]
    code, said = _run("agree", tmp_path / "agreement.toml", "--write-site", "north")
    assert (code, "needs --records" in said) == (2, True)
    code, said = _run("agree", tmp_path / "agreement.toml", "-n", 40, "--write-site", "north")
    assert (code, "exists" in said) == (2, True)
    code, said = _run("agree", tmp_path / "agreement.toml", "--write-site", "east")
    assert (code, "north, south, west" in said) == (2, True)
    (tmp_path / "agreement.toml").write_text(TEXT.replace("radius", "radios"))
    code, said = _run("agree", tmp_path / "agreement.toml")
    assert (code, "radios" in said) == (2, True)


BATCHES = TEXT.replace('"DPRGD"', '"DPRSGD"\nbatch-size = 5')


@pytest.mark.parametrize("text", [TEXT, BATCHES], ids=["DP-RGD", "DP-RSGD"])
def test_a_first_file_lets_a_site_answer_in_every_round(tmp_path, text):
    """The run costs less than all answers of one site, because it is drawn now and then only. To a
    ledger the answers are one run that was planned, also where their batches are random.
    """
    drawn = text.replace("round-robin", "uniform").replace("rounds = 6", "rounds = 3")
    agreed = _agreement(tmp_path, drawn)
    code, said = _run("agree", tmp_path / "agreement.toml", "-n", 40, "--write-site", "north")
    assert code == 0, said
    site = Site.read(tmp_path / "north.toml")
    assert site.ledger is not None
    assert site.ledger.budget.epsilon > agreed.terms.budget.epsilon
    known = agreed.terms.sigma(40)
    done = [_ask(site, number, sigma=known) for number in range(agreed.terms.numbers)]
    assert site.rounds_answered() == (0, 1, 2)
    spent = done[0].guarantee.repeat(3).epsilon(1e-5)
    assert site.ledger.spent.epsilon(1e-5) == pytest.approx(spent, rel=1e-6)
    assert spent <= site.ledger.budget.epsilon <= 1.001 * spent
    site.answers.unlink()  # of a site that lost its count: its ledger has room for no more
    with pytest.raises(Refused, match="not enough budget left"):
        _ask(site, 0)


def test_a_key_pair_stays_at_its_site(tmp_path):
    from cryptography.hazmat.primitives.asymmetric import x25519 as ed

    code, public = _run("key", tmp_path / "north.key")
    private = bytes.fromhex((tmp_path / "north.key").read_text())
    made = ed.X25519PrivateKey.from_private_bytes(private).public_key()
    assert (code, public.strip()) == (0, made.public_bytes_raw().hex())
    assert (tmp_path / "north.key").stat().st_mode & 0o777 == 0o600
    code, said = _run("key", tmp_path / "north.key")
    assert (code, "exists" in said) == (2, True)
    assert bytes.fromhex((tmp_path / "north.key").read_text()) == private


def test_the_report_of_a_run_is_made_from_the_servers_files(tmp_path):
    from riemdp.federated import Coordinator, plan_federated
    from riemdp.randomness import noise_source

    agreed = _agreement(tmp_path)
    setup = agreed.terms
    plan = plan_federated(setup.prirfed, [40] * 3, setup.budget)
    server = Coordinator(
        setup.prirfed,
        plan,
        dict.fromkeys(NAMES, 40),
        START,
        setup.budget,
        noise_source(None),
        agreement=setup.fingerprint,
    )
    for _ in range(4):  # of 6: it was stopped
        server.invite(NAMES)
        server.close()
    path, page = tmp_path / "result.npz", tmp_path / "report.html"
    Servers.write_result(str(path), server, reproducible=False)
    code, said = _run("report", tmp_path / "agreement.toml", path, "--out", page)
    assert code == 0, said
    told = json.loads((tmp_path / "report.json").read_text())
    epsilon = plan.local[40].repeat(3).epsilon(1e-5)  # ceil(4 * 2 / 3) answers of the busiest site
    assert told["guarantee"]["epsilon"] == pytest.approx(epsilon, rel=1e-6)
    assert told["records"] == 120
    assert hashlib.sha256(path.read_bytes()).hexdigest() in page.read_text()
    code, said = _run("report", tmp_path / "agreement.toml", path, "--out", page)
    assert code == 2
    assert "exists already" in said
    assert "spring" in page.read_text()

    facts = json.loads((tmp_path / "result.json").read_text())
    for key, lie, words in (
        ("epsilon", 0.1, "its rounds cost"),
        ("agreement", "0" * 64, "another agreement"),
        ("sizes", None, "not what a server wrote"),
    ):
        (tmp_path / "result.json").write_text(json.dumps(facts | {key: lie}))
        code, said = _run(
            "report", tmp_path / "agreement.toml", path, "--out", tmp_path / "other.html"
        )
        assert (code, words in " ".join(said.split())) == (2, True)
    (tmp_path / "result.json").write_text(json.dumps(facts))
    np.savez(path, point_0=2.0 * START)  # not the point that the rounds end at
    code, said = _run("report", tmp_path / "agreement.toml", path, "--out", tmp_path / "other.html")
    assert (code, "another value than the rounds end at" in " ".join(said.split())) == (2, True)
