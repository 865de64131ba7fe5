"""Sites that share their noise, over TLS with real processes: a server that lies to them, and an
honest run with a site that is late and one that does not answer. Slow.
"""

from __future__ import annotations

import numpy as np
import pytest

from riemdp.federated import Agreement

from .shared_deployment import CAP, FAILED, NAMES, ROUNDS, records
from .test_deployment import deployed

pytestmark = pytest.mark.federated_deployment


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    return deployed(tmp_path_factory, "shared_deployment")


@pytest.fixture(scope="module")
def agreed(facts):
    """The agreement of the honest run, without the line that was added at the end."""
    text = (facts["folder"] / "agreement.toml").read_text().removesuffix("# changed\n")
    (facts["folder"] / "signed.toml").write_text(text)
    agreed = Agreement.read(facts["folder"] / "signed.toml")
    assert agreed.fingerprint == facts["fingerprint"]
    return agreed


# ------------------------------------------------------------------------------------------------
# a server that lies
def test_the_connection_is_tls_under_our_authority(facts):
    assert facts["tls"] == [True, False]


def test_a_run_that_was_started_with_another_epsilon_is_declined(facts):
    assert len(facts["epsilon"]) == 3
    for _, _, _, words in facts["epsilon"]:
        assert "another epsilon" in words
        assert "Nothing was spent" in words


def test_code_that_a_site_has_not_read_does_not_run(facts):
    assert len(facts["code"]) == 3
    assert all(words != "answered" for *_, words in facts["code"])
    for i in range(3):
        assert "FAB verification failed" in facts["logs"][f"node{i}"]
    assert facts["before"] == {name: [[], 0, 0.0] for name in NAMES}


def test_every_lie_is_refused_by_every_site(facts):
    refused = [
        (site, name, words) for site, name, _, words in facts["lies"] if name != "a question"
    ]
    assert {(site, name) for site, name, _ in refused} == {
        (site, name) for site in NAMES for _, name, _ in refused
    }
    assert len(refused) == 36
    for _, name, words in refused:
        assert "declined: " in words, name
        assert "Nothing was spent" in words, name


def test_sixty_questions_get_as_many_answers_as_the_site_agreed_to(facts):
    assert len(facts["lies"]) == 60
    for site in NAMES:
        said = [
            (n, words) for s, name, n, words in facts["lies"] if (s, name) == (site, "a question")
        ]
        assert [n for n, words in said if words == "answered"] == [0, 1]
        assert ["this site has answered this round" in words for n, words in said[:4]] == [
            False,
            True,
            False,
            True,
        ]
        assert all("as often as it agreed to" in words for _, words in said[4:])
        rounds, charges, epsilon = facts["after"][site]
        assert (rounds, charges) == ([0, 1], CAP)
        assert 0 < epsilon < 4.0  # the budget of all six rounds


# ------------------------------------------------------------------------------------------------
# an honest run
def test_a_site_that_is_not_ready_is_named_and_waited_for(facts):
    said = facts["logs"]["together"]
    assert facts["waited"]
    assert "c could not answer; its own log says why" in said  # no records yet
    assert "FileNotFoundError in " in facts["logs"]["node2"]
    assert "c.npy" not in said
    assert "it would add noise of" in said  # an older version
    assert "'a stranger', which is not expected here" in said


def test_a_missing_site_fails_the_round_and_is_left_out_of_the_next(facts, agreed):
    rounds = facts["result"]["rounds"]
    assert facts["ended"]
    assert facts["finished"]
    assert [r["round"] for r in rounds] == list(range(ROUNDS))
    assert [r["moved"] for r in rounds] == [True, False, True, True, True]
    assert [r["invited"] for r in rounds[:3]] == [3, 3, 2]
    assert (rounds[FAILED]["accepted"], rounds[FAILED]["missing"]) == (2, 1)
    assert rounds[-1]["invited"] == 3  # it has said its key, and is back
    with np.load(facts["folder"] / "result.npz") as saved:
        point = saved["point_0"]
    space = agreed.terms.prirfed.problem.manifold
    x = np.concatenate([records(i) for i in range(3)])
    mean = np.exp(np.mean(np.log(np.einsum("nii->ni", x)), axis=0))
    assert float(space.dist(point, np.diag(mean))) < 0.25
    assert float(space.dist(np.eye(2), np.diag(mean))) > 0.7


def test_everybody_counts_what_was_spent(facts, agreed):
    """Each site every answer that it gave, and the server every round, the failed one too."""
    shared = agreed.terms.shared
    assert shared is not None
    result = facts["result"]
    assert result["epsilon"] == pytest.approx(shared.guarantee.repeat(ROUNDS).epsilon(1e-5))
    assert result["epsilon"] <= 4.0
    assert "3 sites at most 1" in result["assumes"]
    for name in NAMES:
        answered, charges, epsilon = facts["spent"][name]
        _, before, earlier = facts["after"][name]
        assert charges - before == len(answered) <= result["invitations"][name]
        assert epsilon > earlier
    assert facts["spent"]["a"][0] == [0, 1, 2, 3, 4]
    assert facts["spent"]["c"][0] in ([0, 3, 4], [0, 4])


def test_a_site_reads_one_line_and_the_run_has_a_report(facts):
    assert facts["status"][0].startswith("a: 5 of 5 answers, the last to round 4 on 20")
    assert "all runs have cost a record at most epsilon" in facts["status"][0]
    assert "a: 5 of 5 answers, the last to round 4 on" in facts["logs"]["node0"]
    said = facts["logs"]["together"]
    assert f"round {FAILED} (2 of 5): 3 asked, 2 answered, 1 missing; too few" in said
    assert "the run ends after 5 of 5 rounds" in said
    assert "3 sites at most 1" in (facts["folder"] / "report.html").read_text()


def test_no_key_of_a_round_is_left(facts):
    assert facts["keys left"] == []


def test_an_agreement_that_was_changed_after_it_was_signed_ends_the_start(facts):
    assert facts["changed"].startswith("refused: ")
    assert "another version" in " ".join(facts["changed"].split())


def test_no_process_is_left_behind(facts):
    assert facts["left behind"] == []
