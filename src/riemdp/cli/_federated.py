"""`riemdp federated`: what the people at the sites of a federated run do by hand."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from . import _options as o
from ._run import USAGE, InputProblem, command, print_facts, print_json

AgreementFile = Annotated[
    Path, typer.Argument(help="The file that all parties sign, agreement.toml.", show_default=False)
]
SiteFile = Annotated[
    Path, typer.Argument(help="The site's own file, site.toml.", show_default=False)
]

_SITE = """\
# What {name} agrees to. The server, and whoever starts a run, can change nothing of it.
name = "{name}"
agreement = "{fingerprint}"  # of the file below, as this site has read it

[limits]
answers = {answers}                                   # in all; no round is answered twice
total = {{ epsilon = {epsilon}, delta = {delta} }}      # what all of them may cost a {unit}{drawn}

[files]
agreement = "{agreement}"
answers = "{stem}-answers.json"                # which rounds were answered; keep it
ledger = "{stem}-ledger.json"                  # what they have cost; keep it{key}

[data]
file = "records.npy"                           # one record along the first axis{groups}
"""
_DRAWN = """
# The run costs less, epsilon {epsilon:g}: it counts how rarely a site is drawn. The total is for a
# site that is drawn in every round, and it does not decline before the end."""
_GROUPS = """
groups = "people.csv"                          # whose each record is, one label a line"""


@command
def agree(
    file: AgreementFile,
    records: Annotated[
        int | None,
        typer.Option("--records", "-n", help="Records (or people) of a site: its noise and total."),
    ] = None,
    write: Annotated[
        str | None,
        typer.Option("--write-site", help="Write a first site.toml for the site of this name."),
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Check an agreement, say what it means, and print the fingerprint that every site compares.

    The fingerprint is the SHA-256 of the file: sha256sum prints the same.
    """
    from ..federated import Agreement, Setup

    agreed = Agreement.read(file)
    searched = not isinstance(agreed.terms, Setup)
    names = [party.name for party in agreed.sites]
    if write is not None and write not in names:
        raise InputProblem(
            f"--write-site {write} is no site of the agreement", f"choose one of {', '.join(names)}"
        )
    if searched and records is not None:
        raise InputProblem("--records is for rounds", "leave it out: a search has agreed on them")
    if write is not None and records is None and not searched:
        raise InputProblem("--write-site needs --records", "a site's total depends on them")
    facts = _facts_of_search(agreed) if searched else _facts(agreed, records)
    if write is not None:
        target = file.resolve().parent / f"{write}.toml"
        if target.exists():
            raise InputProblem(f"{target} exists", "read it, or move it away first")
        first = _first_site(agreed, write, file.name, records)
        target.write_text(first, encoding="utf-8")
        facts["site file"] = str(target)
    if as_json:
        print_json(facts | {"terms": agreed.terms.text})
        return
    # The line that all compare, whole on a narrow screen, too.
    typer.echo(f"fingerprint {facts.pop('fingerprint')}")
    print_facts([(name, str(words)) for name, words in facts.items()])
    typer.echo(f"\nThe settings that decide the noise:\n{agreed.terms.text}")


def _noise_in_words(agreed: Any) -> str:
    """Who adds the noise."""
    if not agreed.terms.shares_noise:
        return "each site adds all of its own"
    return f"shared; holds if at most {agreed.terms.tolerated} of the sites drop out or collude"


def _facts(agreed: Any, records: int | None) -> dict[str, Any]:
    setup = agreed.terms
    budget = setup.budget
    facts: dict[str, Any] = {
        "fingerprint": agreed.fingerprint,
        "run": agreed.run,
        "sites": ", ".join(party.name for party in agreed.sites),
        f"the run costs a {setup.unit}": f"at most epsilon {budget.epsilon:g} at delta"
        f" {budget.delta:g}",
        "answers of one site": f"at most {setup.answers}",
        "noise": _noise_in_words(agreed),
    }
    if setup.of_people:
        from ..federated._accounting import ONE_SITE

        facts["it assumes"] = ONE_SITE
    if records is not None:
        from ..federated._door import protocol_of

        plan = setup.plan([records] * setup.agents)
        one, whole = plan.local[records], protocol_of(setup).whole(records)
        facts["one answer costs"] = f"epsilon {one.epsilon(budget.delta):.4g}"
        facts["all answers cost"] = (
            f"epsilon {whole.epsilon(budget.delta):.4g}, where a site is asked in every round that"
            " it can be"
        )
        sigma, of = plan.sigma_of[records], "one site's step"
        if plan.shared is not None:
            sites = plan.shared.parties
            sigma, of = plan.shared.sigma_of(sites) / (records * sites), "the step of all sites"
        facts[f"noise of {of}"] = f"sigma {sigma:.6g} in each coordinate"
    return facts


def _facts_of_search(agreed: Any) -> dict[str, Any]:
    terms = agreed.terms
    budget, noise = terms.budget, terms.noise_of_sites
    released = {
        "ball": "a ball that holds most records",
        "mean": "a ball, and the mean in it",
        "variance": "the Fréchet variance about the centre of the public ball",
    }[terms.release]
    if terms.variance > 0.0:
        released += f", and the variance about it ({terms.variance:.0%} of what the search leaves)"
    facts: dict[str, Any] = {
        "fingerprint": agreed.fingerprint,
        "run": agreed.run,
        "sites": ", ".join(f"{name} ({n} {terms.counted})" for name, n in terms.sizes.items()),
        "the sites find": released,
        f"all of it costs a {terms.unit}": f"at most epsilon {budget.epsilon:g} at delta"
        f" {budget.delta:g}",
        "answers of one site": f"at most {terms.answers}, whose shares of the cost add up to 1",
        "noise": _noise_in_words(agreed),
        "it assumes": terms.guarantee.assumes or "nothing of the server or of other sites",
        "noise multiplier of all answers": f"{noise.each.multiplier:.4g}",
    }
    if terms.release != "variance":
        facts[f"{terms.counted} that a search needs"] = terms.plan.need
    return facts


def _first_site(agreed: Any, name: str, file: str, records: int | None) -> str:
    """A site's file whose total is what all answers that the plan needs of it cost."""
    from ..federated._door import protocol_of
    from ..inference._region import rounded_up

    terms = agreed.terms
    budget, drawn = terms.budget, ""
    epsilon = repr(budget.epsilon)
    whole = protocol_of(terms).whole(0 if records is None else records)
    if not whole.within(budget):
        epsilon = rounded_up(whole.epsilon(budget.delta) * (1.0 + 1e-9))  # so that all of them fit
        drawn = _DRAWN.format(epsilon=budget.epsilon)
    return _SITE.format(
        name=name,
        fingerprint=agreed.fingerprint,
        answers=terms.answers,
        epsilon=epsilon,
        delta=repr(budget.delta),
        agreement=file,
        stem=name,
        unit=terms.unit,
        drawn=drawn,
        groups=_GROUPS if terms.of_people else "",
        key=f'\nkey = "{name}.key"                         # this site\'s private key'
        if terms.shares_noise
        else "",
    )


@command
def status(file: SiteFile, as_json: o.Json = False) -> None:
    """How often a site has answered, and what that has cost. Reads no record."""
    from ..federated import Site

    site = Site.read(file)
    if as_json:
        rounds = site.rounds_answered()
        facts: dict[str, Any] = {"site": site.name, "rounds_answered": list(rounds)}
        if site.ledger is not None:
            budget = site.ledger.budget
            spent = site.ledger.spent.epsilon(budget.delta)
            facts |= {
                "budget": [budget.epsilon, budget.delta],
                "spent_epsilon": spent if math.isfinite(spent) else "infinity",
            }
        print_json(facts)
        return
    typer.echo(site.status())


@command
def check(
    file: SiteFile,
    server: Annotated[
        str | None, typer.Option("--server", help="Also the way to the server, name:port.")
    ] = None,
    authority: Annotated[
        Path, typer.Option("--authority", help="The certificate that the server's is held to.")
    ] = Path("certificates/ca.crt"),
    port: Annotated[
        int | None, typer.Option("--port", help="Also whether this port is free for the node.")
    ] = None,
) -> None:
    """Read a site's own records and say what is wrong with them, for the site alone: not private.

    Nothing is sent, charged or counted. Exit code 2 where something is wrong.
    """
    from ..federated import Site
    from ..federated._check import problems_of_data, problems_of_port, problems_of_server

    site = Site.read(file)
    found = problems_of_data(site)
    found += [] if port is None else problems_of_port(port)
    found += [] if server is None else problems_of_server(server, authority)
    for problem in found:
        typer.echo(f"{site.name}: {problem}.", err=True)
    if found:
        raise typer.Exit(USAGE)
    typer.echo(f"{site.name}: nothing is wrong with its files and records.")


@command
def key(
    file: Annotated[
        Path, typer.Argument(help="Where the private key is written.", show_default=False)
    ],
) -> None:
    """Make a site's long-term key pair (X25519) and print the public key for the agreement.

    The private key never leaves the site; only this machine's user can read its file.
    """
    from ..federated._secure_sum import new_key_file

    typer.echo(new_key_file(file))


@command
def report(
    file: AgreementFile,
    result: Annotated[
        Path, typer.Argument(help="What the server wrote: result.npz.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page, a name that ends in .html.")],
) -> None:
    """The privacy report of a federated run, from what its server wrote. Reads no record.

    What the run cost is computed anew from the agreement and the rounds that took place; the result
    of a search is computed anew from its noisy sums.
    """
    from ..federated import Agreement, Setup
    from ..federated._result import told_release, told_result
    from ..mechanisms import Release
    from ..report import privacy_report
    from ._release import refuse_taken

    refuse_taken(out, out.with_suffix(".json"))
    agreed = Agreement.read(file)
    terms = agreed.terms
    if isinstance(terms, Setup):
        made, checksum = told_result(terms, result)
        words = f"result of the federated run {agreed.run!r} of {len(made.invitations)} sites"
        known = {**made.details, "released": words, "budget": terms.budget}
        told = dataclasses.replace(made, details=known)
    else:
        made, checksum = told_release(terms, result)
        # `query` stays: what the region is of follows from it
        known = {"released": _searched_in_words(agreed), "budget": terms.budget}
        told = made._knowing(known)
    page = privacy_report(
        told,
        record_is="one record of one site",
        checksum=checksum,
    ).save(out)
    typer.echo(str(made.guarantee))
    if isinstance(made, Release) and made.observation is not None:
        typer.echo(str(made.confidence_region()))
    typer.echo(f"wrote {page[0]} and {page[1]}")


def _searched_in_words(agreed: Any) -> str:
    terms = agreed.terms
    also = " with its ball" if terms.release == "mean" else ""
    also += " and the variance about it" if terms.variance > 0.0 else ""
    sizes = ", ".join(str(n) for n in terms.sizes.values())
    return (
        f"private {terms.release}{also} of the federated search {agreed.run!r} of"
        f" {len(agreed.sites)} sites with {sizes} {terms.counted} (public)"
    )
