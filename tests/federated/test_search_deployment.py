"""A search for a ball over TLS with real processes: a server that lies, sites and a server that are
killed, a site that has signed something else, and one that stays away. Slow.
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp.federated import Agreement
from tests.seam import Servers

from .search_deployment import RADIUS, SERVER_STOPS_FROM, STOPS_IN
from .test_deployment import deployed
from .test_search import ALL, SITES, SPACE
from .test_search_sites import NAMES

pytestmark = pytest.mark.federated_deployment


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    return deployed(tmp_path_factory, "search_deployment")


def released(facts, run):
    """What the agreement and the files of the server say, and the agreement."""
    place = facts["folder"] / run
    agreed = Agreement.read(place / "agreement.toml")
    return Servers.told_release(agreed.terms, place / "result.npz")[0], agreed


# ------------------------------------------------------------------------------------------------
# a server that lies
def test_the_connection_is_tls_under_our_authority(facts):
    assert facts["tls"] == [True, False]


def test_every_lie_is_refused_by_every_site(facts):
    assert facts["lies ended"]
    refused = [told for told in facts["lies"] if told[1] != "a question"]
    assert {(site, name) for site, name, *_ in refused} == {
        (site, name) for site in NAMES for _, name, *_ in refused
    }
    assert len(refused) == 3 * 9
    for _, name, _, words in refused:
        assert "declined: " in words, name
        assert "Nothing was spent" in words, name


def test_a_server_gets_the_whole_budget_and_no_more(facts):
    """The lies have spent nothing: what is left after them is the whole, and it is charged once."""
    for site in NAMES:
        told = [t[2:] for t in facts["lies"] if t[:2] == [site, "a question"]]
        assert [n for n, words in told if words == "answered"] == [3, 2]
        assert [n for n, _ in told] == [3, 3, 10**6, 4, 2, 5]
        assert "has answered this question" in told[1][1]
        assert "no such question" in told[2][1]
        assert all("budget of this search is spent" in told[i][1] for i in (3, 5))
        answered, share, charges, epsilon = facts["lies spent"][site]
        assert (answered, share, charges) == ([3, 2], 1.0, 1)
        assert epsilon == pytest.approx(1.0)


# ------------------------------------------------------------------------------------------------
# an honest search with shared noise
def test_a_site_that_has_signed_another_agreement_is_named_and_has_spent_nothing(facts):
    assert facts["c was named"]
    assert facts["c was waited for"]
    said = facts["logs"]["shared"]
    assert "c declined: the server's settings are not this site's. Nothing was spent" in said
    assert all(told == [[], 0.0, 0, 0.0] for told in facts["with another agreement"].values())


def test_the_sites_find_the_mean_within_the_budget(facts):
    assert facts["shared ended"]
    release, agreed = released(facts, "shared")
    assert release.guarantee == agreed.terms.guarantee
    assert release.guarantee.within(riemdp.Budget(1.0, 1e-6))
    assert "3 sites at most 1" in release.guarantee.assumes
    assert facts["shared"]["private"] is True
    ball = release.details["ball"]
    assert 0.6 < np.mean(np.asarray(ball.contains(SPACE, ALL))) <= 1.0
    mean = riemdp.frechet_mean(SPACE, ALL).value
    # eight times the noise in each of three coordinates, and what clipping at the ball can do
    assert float(SPACE.dist(mean, release.value)) < 8 * 3**0.5 * release.scale + 0.15
    assert float(SPACE.dist(mean, np.eye(2))) > 1.0
    assert "3 sites at most 1" in (facts["folder"] / "shared" / "report.html").read_text()


def test_a_site_that_is_killed_goes_on_and_is_charged_once(facts):
    assert facts["b was killed"]
    assert facts["b came back"]
    answered, share, charges, epsilon = facts["b when killed"]
    assert (answered, charges) == (list(range(STOPS_IN + 1)), 1)
    assert epsilon == pytest.approx(1.0)
    after, later, charges, epsilon = facts["shared spent"]["b"]
    assert charges == 1
    assert epsilon == pytest.approx(1.0)
    assert share < later <= 1.0 + 1e-9
    assert after[: STOPS_IN + 1] == answered
    assert len(set(after)) == len(after) > STOPS_IN + 1
    lost = facts["shared"]["questions"][STOPS_IN]
    assert lost["values"] is None
    assert lost["answered"] == ["a", "c"]
    assert "the last to question" in facts["logs"]["node1-again"]


def test_a_server_that_is_killed_goes_on(facts):
    assert facts["server was killed"]
    assert facts["server processes"] == 1
    before = facts["questions when killed"]
    assert before > SERVER_STOPS_FROM
    assert f"goes on after {before} questions" in facts["logs"]["shared-again"]
    assert facts["shared"]["questions"][before - 1]["values"] is None
    assert facts["shared"]["failed_sums"] >= 2
    for name in NAMES:
        answered, share, charges, _ = facts["shared spent"][name]
        assert charges == 1
        assert share <= 1.0 + 1e-9
        assert len(set(answered)) == len(answered)


# ------------------------------------------------------------------------------------------------
# a site that stays away
def test_with_local_noise_the_others_go_on_and_all_that_answered_are_charged(facts):
    assert facts["c was killed"]
    assert facts["local ended"]
    release, agreed = released(facts, "local")
    assert release.guarantee == agreed.terms.guarantee
    distances = np.asarray(SPACE.dist(3.0 * np.eye(2), np.concatenate(SITES[:2])))
    assert abs(float(release.value) - np.mean(np.minimum(distances, RADIUS) ** 2)) < (
        8 * release.scale
    )
    assert facts["local"]["failed_sums"] == 0
    assert facts["local"]["questions"][0]["asked"] == list(NAMES)
    assert facts["local"]["questions"][0]["answered"] == ["a", "b"]
    for name in NAMES:
        answered, share, charges, epsilon = facts["local spent"][name]
        assert (answered, share, charges) == ([0], 1.0, 1)
        assert epsilon == pytest.approx(1.0)


def test_where_the_noise_needs_all_sites_nobody_is_asked_without_one(facts):
    assert facts["all ended"]
    said = facts["logs"]["all"]
    assert "nothing was heard of c in time" in said
    assert "2 sites are there, and the noise needs 3 of 3" in said
    assert all(told == [[], 0.0, 0, 0.0] for told in facts["all spent"].values())
    assert not (facts["folder"] / "all" / "result.json").exists()


def test_no_process_is_left_behind(facts):
    assert facts["left behind"] == []
