"""Sites of a federated run that protect people: their own labels decide, the unit is part of what
all parties sign, and nothing that a server sends changes either.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import riemdp
from riemdp import Budget, InvalidArgument, Ledger, noise_source
from riemdp.federated import (
    Agreement,
    Message,
    Party,
    PriRFed,
    Refused,
    Setup,
    Site,
    answer,
    plan_federated,
    run_in_process,
)
from riemdp.optimizers import DPRGD
from riemdp.privacy import gaussian, participation
from tests.seam import Commands, Gradients, Masks, Servers, Sites, original, over_flower, plant
from tests.statistical import ALPHA, gaussian_p_value

from .heard import heard

SPACE = riemdp.Euclidean(30)
START = np.zeros(30)
CLIP, RATE = 0.8, 0.25
PROBLEM = riemdp.problems.frechet_mean(SPACE, ball=riemdp.Ball(START, 3.0))
LOCAL = DPRGD(steps=1, learning_rate=RATE, clip_norm=CLIP)
BUDGET = Budget(100.0, 1e-5)  # so that the noise does not hide what a fault moves
NAMES = ("a", "b", "c")
ROUNDS = 20
PEOPLE = 13
ONE_SITE = "all records of one person are at one site"


def setup_of(folder: Path, noise: str = "local", **changed) -> Setup:
    """Three sites that all answer in each of 20 rounds, and protect people."""
    told = {"noise": noise, "tolerated": 1} if noise == "shared" else {}
    prirfed = PriRFed(
        PROBLEM, LOCAL, rounds=ROUNDS, agents_per_round=3, participation="round-robin", **told
    )
    keys = [None, None, None]
    if noise == "shared":
        keys = [Masks.new_key_file(folder / f"{name}.key") for name in NAMES]
    parties = tuple(map(Party, NAMES, keys))
    own = {"parties": parties, "unit": "person"} | changed
    return Setup(prirfed, START, BUDGET, agents=3, **own)


def site_of(folder: Path, name: str = "a", **changed) -> Site:
    own = {
        "answers": folder / f"{name}-answers.json",
        "key": folder / f"{name}.key",
        "ledger": Ledger(Budget(200.0, 1e-5), path=folder / f"{name}-ledger.json"),
    }
    return Site(**{"name": name} | own | changed)


def data_of(seed: int) -> tuple[np.ndarray, list[str]]:
    """One person with 40 records far out, and twelve with three each."""
    near = noise_source(seed).normals((36, 30)) * 0.2
    far = np.zeros((40, 30))
    far[:, seed] = 2.5
    return np.concatenate([far, near]), ["Kim"] * 40 + [f"p{i // 3}" for i in range(36)]


def by_hand(records: np.ndarray, labels: list[str]) -> np.ndarray:
    """The sum over people of the mean of their clipped gradients at the start, by NumPy."""
    gradients = -2.0 * records
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped = gradients * np.minimum(1.0, CLIP / np.maximum(lengths, 1e-300))
    whose = np.array(labels)
    return np.sum([clipped[whose == a].mean(axis=0) for a in sorted(set(labels))], axis=0)


def noise_multiplier() -> float:
    """Of one of 20 Gaussian answers that cost (100, 1e-5) together, by the formula for one."""

    def missing(mu: float) -> float:
        first = norm.cdf(-BUDGET.epsilon / mu + mu / 2)
        return first - math.exp(BUDGET.epsilon) * norm.cdf(-BUDGET.epsilon / mu - mu / 2) - 1e-5

    return math.sqrt(ROUNDS) / brentq(missing, 1.0, 50.0)


def members(folder: Path, setup: Setup) -> dict[str, str]:
    return {name: Sites.keys_of(site_of(folder, name), setup).fresh.hex() for name in NAMES}


# ------------------------------------------------------------------------------------------------
# the distribution of what leaves a site
def errors_of_answers(folder: Path, times: int = ROUNDS) -> np.ndarray:
    """What the answers of one site are off from the mean over its people by."""
    setup, (records, labels) = setup_of(folder), data_of(0)
    found = []
    for number in range(times):
        here = site_of(folder, ledger=None)  # it would see that one of them is charged otherwise
        done = answer(here, setup, records, Message(START, number), groups=labels, rng=number)
        found.append(-np.asarray(done.value) / RATE - by_hand(records, labels) / PEOPLE)
    return np.array(found)


def errors_of_sums(folder: Path, times: int = 12) -> np.ndarray:
    """What the sums of three sites are off from the sum over all people by."""
    setup, data = setup_of(folder, "shared"), [data_of(i) for i in range(3)]
    assert setup.shared is not None
    exact, found = sum(by_hand(*own) for own in data), []
    for number in range(times):
        sent = members(folder, setup)
        words = []
        for i, (name, (x, labels)) in enumerate(zip(NAMES, data, strict=True)):
            here, own = (
                site_of(folder, name, ledger=None),
                {"groups": labels, "rng": 3 * number + i},
            )
            words.append(answer(here, setup, x, Message(START, number, sent), **own).value)
        value = setup.shared.value(Masks.total(words), 3 * 76 * CLIP)
        assert value is not None
        found.append(value - exact)
    return np.array(found)


DISTRIBUTIONS = {
    "local": (errors_of_answers, 2 * CLIP / PEOPLE * noise_multiplier()),
    "shared": (errors_of_sums, 2 * CLIP * noise_multiplier() * math.sqrt(3 / 2)),
}


@pytest.mark.parametrize("noise", DISTRIBUTIONS)
def test_answers_have_the_distribution_of_a_sum_over_people(tmp_path: Path, noise: str) -> None:
    errors, sigma = DISTRIBUTIONS[noise]
    assert gaussian_p_value(errors(tmp_path), sigma) > ALPHA


def records_alone(rounds, records, groups, source):
    """Planted: every record is clipped and counted, and the number told is that of people."""
    return np.asarray(records)


def told_of_records(rounds, name, records, groups):
    """Planted: the number told, and calibrated for, is that of records."""
    return len(records)


ALONE, TOLD = ("records of a site", records_alone), ("number of a site", told_of_records)


@pytest.mark.parametrize(
    ("noise", "planted"),
    [("local", ALONE), ("shared", ALONE), ("local", TOLD)],
)
def test_the_distribution_sees_planted_faults(
    tmp_path: Path, monkeypatch, noise: str, planted
) -> None:
    plant(monkeypatch, *planted)
    errors, sigma = DISTRIBUTIONS[noise]
    assert gaussian_p_value(errors(tmp_path), sigma) < ALPHA


def test_one_person_with_most_records_moves_an_answer_as_one_record_does(tmp_path: Path) -> None:
    setup, (records, labels) = setup_of(tmp_path), data_of(0)
    rounds = SimpleNamespace(setup=setup)

    def moved(planted=None) -> float:
        found = []
        for sign in (1.0, -1.0):  # everything of one person exchanged, next to no noise
            x = np.concatenate([sign * records[:40], records[40:]])
            own = (planted or original("records of a site"))(rounds, x, labels, None)
            done = Sites.updated(setup.prirfed, own, START, 1e-9, Gradients.Account(), rng=1)
            found.append(np.asarray(done.value) / RATE)
        return float(np.linalg.norm(found[0] - found[1]))

    assert 0.99 < moved() / (2 * CLIP / PEOPLE) < 1.0 + 1e-6
    assert moved(records_alone) > 5 * 2 * CLIP / PEOPLE  # the test can fail


# ------------------------------------------------------------------------------------------------
# what is agreed, and who refuses
def test_the_unit_is_part_of_what_all_parties_sign(tmp_path: Path) -> None:
    people = setup_of(tmp_path)
    records = dataclasses.replace(people, unit="record")
    assert people.fingerprint != records.fingerprint
    assert "unit: 'person'\n" in people.text
    assert "unit: 'record'\n" in records.text
    with pytest.raises(InvalidArgument, match="`unit`"):
        dataclasses.replace(people, unit="patient")
    labels_only = dataclasses.replace(PROBLEM, protects="the labels (features are public)")
    prirfed = PriRFed(labels_only, LOCAL, rounds=2, agents_per_round=2)
    with pytest.raises(InvalidArgument, match=r"`unit`.*in what is public"):
        Setup(prirfed, START, BUDGET, agents=3, unit="person")


@pytest.mark.parametrize("noise", ["local", "shared"])
def test_a_site_declines_another_unit_and_nothing_is_spent(tmp_path: Path, noise: str) -> None:
    setup, (records, labels) = setup_of(tmp_path, noise), data_of(0)
    single = dataclasses.replace(setup, unit="record")
    here = site_of(tmp_path)
    sent = members(tmp_path, setup) if noise == "shared" else {}

    def ask(settings: Setup, where: Site = here, agreement=None, **own):
        if noise == "shared":
            return answer(where, settings, records, Message(START, 0, sent, agreement), **own)
        message = Message(START, 0, agreement=agreement)
        return answer(where, settings, records, message, sigma=1.0, **own)

    # a server whose run protects records has another fingerprint
    with pytest.raises(Refused, match=r"server's settings are not this site's.*Nothing was"):
        ask(setup, groups=labels, agreement=single.fingerprint)
    signed = site_of(tmp_path, agreement=setup.fingerprint)
    with pytest.raises(Refused, match=r"not those that it agreed to.*Nothing was spent"):
        ask(single, signed)
    # a site without labels protects no person; one with labels gives no run for records
    with pytest.raises(Refused, match=r"whose its records are.*Nothing was spent"):
        ask(setup)
    named = dataclasses.replace(here, data={"groups": "people.csv"})  # whatever an app loads
    for own in ({"groups": labels}, {"where": named}):
        with pytest.raises(Refused, match=r"records are those of people.*Nothing was spent"):
            ask(single, **own)
    for bad in (labels[:-1], [*labels[:-1], None], "Kim", dict(enumerate(labels))):
        with pytest.raises(InvalidArgument, match="`groups`") as failure:
            ask(setup, groups=bad)
        assert "Kim" not in str(failure.value)
    # what it has charged before was for records: both do not add up
    mixed = Ledger(Budget(500.0, 1e-5))
    mixed.spend(gaussian(4.0))
    with pytest.raises(Refused, match=r"another unit of privacy.*Nothing was spent"):
        ask(setup, dataclasses.replace(here, ledger=mixed), groups=labels)
    assert mixed.charges == 1
    if noise == "local":
        people = Ledger(Budget(500.0, 1e-5))
        people.spend(gaussian(4.0).for_people())
        with pytest.raises(Refused, match=r"another unit of privacy.*Nothing was spent"):
            ask(single, dataclasses.replace(here, ledger=people))
    assert here.ledger is not None
    assert here.ledger.charges == 0
    assert here.rounds_answered() == ()


@pytest.mark.parametrize("noise", ["local", "shared"])
def test_the_book_of_a_site_is_about_people(tmp_path: Path, noise: str) -> None:
    setup, (records, labels) = setup_of(tmp_path, noise), data_of(0)
    here = site_of(tmp_path)
    assert here.ledger is not None
    if noise == "shared":
        sent = members(tmp_path, setup)
        answer(here, setup, records, Message(START, 0, sent), groups=labels)
    else:
        done = answer(here, setup, records, Message(START, 0), groups=labels)
        assert done.guarantee.unit == "person"
    assert here.ledger.spent.unit == "person"
    assert here.ledger.spent.epsilon(1e-5) == pytest.approx(
        gaussian(noise_multiplier()).epsilon(1e-5), rel=2e-2
    )
    assert '"person"' in (tmp_path / "a-ledger.json").read_text()
    assert "all runs have cost a person at most" in here.status(setup)
    with pytest.raises(InvalidArgument, match="one person"):
        here.ledger.spend(gaussian(4.0))


# ------------------------------------------------------------------------------------------------
# the server
def test_a_server_states_what_one_person_gets(tmp_path: Path) -> None:
    setup = setup_of(tmp_path)
    server = Servers.make_coordinator(setup, {"a": 13, "b": 13}, noise_source(1))
    late = plan_federated(setup.prirfed, [13, 13, 21], setup.budget, agents=setup.agents)
    server.enrol({"c": 21}, late.for_people())  # it came late, and is another size
    server.invite(NAMES)
    server.close()
    guarantee = server.guarantee()
    assert (guarantee.unit, guarantee.assumes) == ("person", ONE_SITE)
    assert all(g.unit == "person" for g in server.plan.local.values())
    Servers.Journal(setup.fingerprint, tmp_path / "state").write(server.state())
    facts = Servers.Journal(setup.fingerprint, tmp_path / "state").facts
    again = Servers.resumed(setup, facts, noise_source(1))
    assert again.guarantee() == guarantee
    plain = Servers.make_coordinator(
        dataclasses.replace(setup, unit="record"), {"a": 13}, noise_source(1)
    )
    assert plain.guarantee().unit == "record"
    with pytest.raises(InvalidArgument, match="another agreement"):
        Servers.Journal(plain.agreement, tmp_path / "state")


# ------------------------------------------------------------------------------------------------
# the files
AGREEMENT = """
run = "patients"
[space]
name = "Euclidean"
shape = [30]
[problem]
name = "frechet_mean"
[domain]
center = "origin"
radius = 3.0
[local]
name = "DPRGD"
steps = 1
learning-rate = 0.25
clip-norm = 0.8
[rounds]
rounds = 20
agents-per-round = 3
participation = "round-robin"
[privacy]
epsilon = 100.0
delta = 1e-5
unit = "person"
[[site]]
name = "a"
[[site]]
name = "b"
[[site]]
name = "c"
"""


def test_the_agreement_names_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "agreement.toml"
    file.write_text(AGREEMENT)
    agreed = Agreement.read(file)
    assert agreed.terms.unit == "person"
    assert agreed.terms.text == setup_of(tmp_path).text
    # whoever starts a run with another unit is told so
    assert agreed.differences({"unit": "person", "timeout": 3.0}) == ()
    assert agreed.differences({"unit": "record"}) == ("unit",)
    for new, words in (
        ('unit = "patient"', "choose 'record' or 'person'"),
        ('unit = "person"\nrecords-per-person = 5', "means nothing"),
    ):
        file.write_text(AGREEMENT.replace('unit = "person"', new))
        with pytest.raises(InvalidArgument, match=words):
            Agreement.read(file)
    single = AGREEMENT.replace('unit = "person"\n', "")
    file.write_text(single)
    assert Agreement.read(file).terms.unit == "record"
    assert Agreement.read(file).differences({"unit": "person"}) == ("unit",)
    assert Agreement.read(file).differences({"unit": "record"}) == ()


def test_the_report_of_a_run_is_about_people(tmp_path: Path) -> None:
    (tmp_path / "agreement.toml").write_text(AGREEMENT)
    agreed = Agreement.read(tmp_path / "agreement.toml")
    server = Servers.make_coordinator(
        agreed.terms, dict.fromkeys(NAMES, PEOPLE), noise_source(None)
    )
    server.invite(NAMES)
    server.close()
    path = tmp_path / "result.npz"
    Servers.write_result(str(path), server, reproducible=False)
    assert '"unit": "person"' in (tmp_path / "result.json").read_text()
    done, _ = Servers.told_result(agreed.terms, path)
    assert (done.guarantee.unit, done.details["people"]) == ("person", 39)
    assert done.details["records_per_person"] == 16
    assert "one person" in str(done)
    said = _said("report", tmp_path / "agreement.toml", path, "--out", tmp_path / "report.html")
    assert "wrote" in said
    page = (tmp_path / "report.html").read_text()
    assert "one person" in page
    assert "39 people" in page
    said = _said("agree", tmp_path / "agreement.toml", "--records", PEOPLE, "--write-site", "a")
    assert "the run costs a person" in said
    written = (tmp_path / "a.toml").read_text()
    assert 'groups = "people.csv"' in written
    assert Site.read(tmp_path / "a.toml").data["groups"] == str(tmp_path / "people.csv")


def _said(*words: object) -> str:
    from typer.testing import CliRunner

    done = CliRunner().invoke(Commands.app, ["federated", *map(str, words)])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


# ------------------------------------------------------------------------------------------------
# over Flower's messages
SITE = """
name = "{name}"
agreement = "{fingerprint}"
[limits]
total = {{ epsilon = 200.0, delta = 1e-5 }}
[files]
agreement = "agreement.toml"
[data]
file = "records.npy"
groups = "people.csv"
groups-column = "patient"
"""


def signed(folder: Path, name: str = "a", seed: int = 0) -> tuple[Path, Agreement]:
    """A folder with everything that one site has."""
    folder.mkdir()
    (folder / "agreement.toml").write_text(AGREEMENT)
    agreed = Agreement.read(folder / "agreement.toml")
    records, labels = data_of(seed)
    np.save(folder / "records.npy", records)
    lines = [f"{label},{i}" for i, label in enumerate(labels)]
    (folder / "people.csv").write_text("\n".join(["patient,scan", *lines]) + "\n")
    file = folder / "site.toml"
    file.write_text(SITE.format(name=name, fingerprint=agreed.fingerprint))
    return file, agreed


@pytest.fixture
def flower():
    pytest.importorskip("flwr", reason="needs the extra `federated`")
    from flwr.supercore.task_identity import TaskIdentity

    from riemdp.federated import flower

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    return flower


def ask(app, kind: str, site: Path, *, run=None, number: int = 0, **facts):
    from flwr.app import Context, Message, RecordDict

    node = {"site": str(site)}
    context = Context(
        run_id=1, node_id=1, node_config=node, state=RecordDict(), run_config=run or {}
    )
    sent = Message(over_flower().pack(START, round=number, **facts), 1, kind)
    return heard(app(sent, context)).content


@pytest.mark.federated_deployment
def test_a_server_cannot_change_the_unit_by_its_messages(tmp_path: Path, flower) -> None:

    honest, agreed = signed(tmp_path / "one")
    lied_to, _ = signed(tmp_path / "two")
    right = {"agreement": agreed.fingerprint}
    app = flower.client_app(rng=7)
    said = ask(app, "query.hello", honest, **right)
    assert dict(said["facts"]) == {
        "name": "a",
        "records": 13,
        "sigma": agreed.terms.sigma(13),
        "key": "",
    }
    lies = {"unit": "record", "records_per_person": 400, "groups": "x"}
    answers = [
        ask(app, "train", site, **right, **facts) for site, facts in ((honest, {}), (lied_to, lies))
    ]
    points = [over_flower().unpack(answer, START) for answer in answers]
    np.testing.assert_array_equal(*points)  # nothing of the lie was read
    assert dict(answers[0]["facts"]) == {"records": 13, "key": ""}
    assert over_flower().fact(answers[0], "groups") is None
    ledger = Site.read(honest).ledger
    assert ledger is not None
    assert (ledger.charges, ledger.spent.unit) == (1, "person")
    # the mean of the people, and not of their records, is what the point moved along
    step = -np.asarray(points[0]) / RATE - by_hand(*data_of(0)) / PEOPLE
    sigma = agreed.terms.sigma(13)
    assert sigma is not None
    assert float(np.linalg.norm(step)) < sigma * (math.sqrt(30) + 5)
    with pytest.raises(Refused, match=r"run was started with another"):
        ask(app, "train", honest, run={"unit": "record"}, number=1, **right)
    single = AGREEMENT.replace('"person"', '"record"')
    (tmp_path / "single.toml").write_text(single)
    other = Agreement.read(tmp_path / "single.toml")
    with pytest.raises(Refused, match="server's settings"):
        ask(app, "train", honest, number=1, agreement=other.fingerprint)
    assert Site.read(honest).rounds_answered() == (0,)


@pytest.mark.federated_deployment
def test_a_site_without_labels_declines_and_says_nothing_of_them(tmp_path: Path, flower) -> None:
    site, agreed = signed(tmp_path / "site")
    right = {"agreement": agreed.fingerprint}
    app = flower.client_app(rng=7)
    whole, labels = site.read_text(), tmp_path / "site" / "people.csv"
    site.write_text(whole[: whole.index("groups")])
    for kind in ("query.hello", "train"):
        with pytest.raises(Refused, match="whose its records are"):
            ask(app, kind, site, **right)
    site.write_text(whole.replace('"patient"', '"Jane"'))
    with pytest.raises(Refused, match=r"^this site could not answer; its own log says why$"):
        ask(app, "train", site, **right)
    site.write_text(whole)
    for broken in ("patient,scan\nKim,1\n", "patient,scan\n" + ",1\n" * 76):
        labels.write_text(broken)
        with pytest.raises(Refused, match=r"^this site could not answer; its own log says why$"):
            ask(app, "train", site, **right)
    assert Site.read(site).rounds_answered() == ()
    own = flower.client_app(rng=7, load_groups=lambda node: data_of(0)[1])
    assert dict(ask(own, "train", site, **right)["facts"]) == {"records": 13, "key": ""}


@pytest.mark.federated_deployment
@pytest.mark.flower_messages
def test_flowers_simulation_protects_people(flower) -> None:
    data = [data_of(i) for i in range(3)]
    records, groups = [x for x, _ in data], [labels for _, labels in data]
    prirfed = PriRFed(PROBLEM, LOCAL, rounds=2, agents_per_round=3, noise="shared", tolerated=1)
    ledger = Ledger(BUDGET)
    got = flower.simulate(prirfed, records, START, BUDGET, groups=groups, ledger=ledger)
    expected = run_in_process(prirfed, records, START, BUDGET, groups=groups)
    assert [r.moved for r in got.rounds] == [True, True]
    assert (got.guarantee, got.sigma) == (expected.guarantee, expected.sigma)
    assert (got.guarantee.unit, ledger.spent.unit) == ("person", "person")
    assert got.guarantee.assumes.startswith(ONE_SITE)
    for name in ("people", "records_per_person", "person_is"):
        assert got.details[name] == expected.details[name]
    assert float(SPACE.dist(got.value, expected.value)) < 12 * got.sigma


# ------------------------------------------------------------------------------------------------
# one person at two sites
def test_what_a_person_at_two_sites_gets() -> None:
    """With random participation the sites of a round are drawn together, so two runs composed would
    claim too much: where just one of two sites is asked, the person is always in. What holds is the
    guarantee of a group of two, here exactly.
    """
    z = 2.0
    one = participation(gaussian(z), agents=2, sampled=1, rounds=1).for_people()
    exact = 2 * norm.cdf(0.5 / z) - 1  # delta at epsilon 0: one Gaussian answer, certainly
    assert one.repeat(2).delta(0.0) < exact - 1e-3
    assert one.for_records().group(2).delta(0.0) == pytest.approx(exact, rel=1e-9)
    with pytest.raises(InvalidArgument, match="one person already"):
        one.group(2)
    # in turn, or with all sites in every round, what the two sites state is composed
    both = gaussian(z).for_people().repeat(2)
    assert both.delta(0.0) == pytest.approx(2 * norm.cdf(math.sqrt(2) / z / 2) - 1, rel=1e-9)
