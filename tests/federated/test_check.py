"""`riemdp federated check`: what a hospital is told, alone, before its node starts."""

from __future__ import annotations

import datetime
import http.server
import ipaddress
import ssl
import threading
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from riemdp import RiemdpWarning
from riemdp.federated import Agreement, Message, Site, answer
from tests.seam import Commands, Sites

AGREEMENT = """\
run = "a check"
[space]
name = "SPDLogEuclidean"
k = 2
[problem]
name = "frechet_mean"
[domain]
radius = 3.0
[local]
name = "DPRGD"
steps = 1
learning-rate = 0.25
sensitivity = "domain"
[rounds]
rounds = 4
agents-per-round = 1
[privacy]
epsilon = 2.0
delta = 1e-5
[[site]]
name = "a"
[[site]]
name = "b"
"""
GOOD = np.exp(np.linspace(-1.0, 1.0, 20))[:, None, None] * np.eye(2)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with records that are as agreed."""
    (tmp_path / "agreement.toml").write_text(AGREEMENT)
    np.save(tmp_path / "records.npy", GOOD)
    signed = Agreement.read(tmp_path / "agreement.toml").fingerprint
    (tmp_path / "a.toml").write_text(
        f'name = "a"\nagreement = "{signed}"\n'
        "[limits]\ntotal = { epsilon = 9.0, delta = 1e-5 }\n"
        '[files]\nagreement = "agreement.toml"\n[data]\nfile = "records.npy"\n'
    )
    return tmp_path / "a.toml"


def checked(*arguments: object) -> tuple[int, str]:
    """The exit code of the command, and what it says."""
    done = CliRunner().invoke(Commands.app, ["federated", "check", *map(str, arguments)])
    return done.exit_code, done.output


def test_a_site_whose_records_are_as_agreed_has_nothing_to_mend(site: Path) -> None:
    assert checked(site) == (0, "a: nothing is wrong with its files and records.\n")


def _one_is(value: object) -> np.ndarray:
    records = GOOD.copy()
    records[7] = value
    return records


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (None, "records.npy cannot be read: No such file"),
        (b"1,0,0,1\n", "is no .npy file of numbers. Write it with numpy.save(path, X)"),
        (np.array([{"a": 1}], dtype=object), "is no .npy file of numbers"),
        (np.ones((20, 3)), "shape"),
        (
            _one_is(np.nan),
            "1 of 20 records cannot be used: each has NaN at position",
        ),
        (_one_is(-np.eye(2)), "is not positive definite"),
    ],
    ids=["missing", "CSV", "code", "shape", "NaN", "no point"],
)
def test_what_is_wrong_with_records_is_told_to_the_site_alone(
    site: Path, records: object, words: str
) -> None:
    file = site.with_name("records.npy")
    file.unlink()
    if isinstance(records, bytes):
        file.write_bytes(records)
    elif records is not None:
        np.save(file, records, allow_pickle=True)
    code, said = checked(site)
    assert code == 2
    assert words in said
    assert len(said.splitlines()) == 1  # and no traceback
    here = Site.read(site)
    assert here.rounds_answered() == ()
    assert here.ledger is not None
    assert here.ledger.charges == 0


def test_limits_that_no_answer_keeps_are_told(site: Path) -> None:
    site.write_text(site.read_text().replace("epsilon = 9.0", "epsilon = 0.001"))
    code, said = checked(site)
    assert code == 2
    assert "A server that asked would hear: this site's own ledger has not enough budget" in said


def test_a_line_of_the_ledger_names_round_run_and_agreement(site: Path) -> None:
    here = Site.read(site)
    assert here.agreed is not None
    signed = here.agreed.fingerprint
    point = here.agreed.terms.place
    for number in (2, 0):
        answer(here, here.agreed.terms, GOOD, Message(point, number, agreement=signed))
    assert here.ledger is not None
    assert [entry.what for entry in here.ledger.entries] == [
        f"round {number} of the run 'a check', as a, under the agreement {signed}"
        for number in (2, 0)
    ]


# ------------------------------------------------------------------------------------------------
# the way to the server
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def _certificate(
    folder: Path, name: str, host: str, start: datetime.datetime, end: datetime.datetime
) -> tuple[Path, Path]:
    """A certificate that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    about = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    try:
        named: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        named = x509.DNSName(host)
    made = (
        x509.CertificateBuilder(about, about, key.public_key(), 1, start, end)
        .add_extension(x509.SubjectAlternativeName([named]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


class Health(http.server.BaseHTTPRequestHandler):
    """A server that says that it is well, by a clock of its own."""

    late = 0.0  # seconds that it is behind
    date: str | None = None  # what it says instead of a date

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def date_time_string(self, timestamp: float | None = None) -> str:
        now = super().date_time_string(datetime.datetime.now().timestamp() - self.late)
        return now if self.date is None else self.date

    def log_message(self, format: str, *args: object) -> None:
        pass


class Listener:
    """A server on loopback with this certificate; without one it does not speak TLS."""

    def __init__(self, files: tuple[Path, Path] | None, late: float = 0.0, date: str | None = None):
        kind = type("Late", (Health,), {"late": late, "date": date})
        self.server = http.server.HTTPServer(("127.0.0.1", 0), kind)
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if files is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*files)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def __enter__(self) -> Listener:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def _files(folder: Path, host: str = "127.0.0.1", start: int = -2, end: int = 300) -> tuple:
    return _certificate(folder, "server", host, NOW + start * DAY, NOW + end * DAY)


@pytest.fixture
def good(tmp_path: Path) -> tuple[Path, Path]:
    return _files(tmp_path)


def test_a_server_that_lets_a_site_in_is_no_problem(good: tuple[Path, Path]) -> None:
    with Listener(good) as there:
        assert Sites.problems_of_server(f"127.0.0.1:{there.port}", good[0]) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"start": -9, "end": -1}, "has expired"),
        ({"start": 1}, "is not valid yet by the clock of this machine"),
        ({"host": "server.example.org"}, "is for another"),
    ],
    ids=["expired", "not yet", "another name"],
)
def test_each_fault_of_a_certificate_has_a_line(tmp_path: Path, given: dict, words: str) -> None:
    files = _files(tmp_path, **given)
    with Listener(files) as there:
        (said,) = Sites.problems_of_server(f"127.0.0.1:{there.port}", files[0])
    assert words in said
    assert len(said.splitlines()) == 1


def test_another_authority_is_said_so(tmp_path: Path, good: tuple[Path, Path]) -> None:
    stranger = _certificate(tmp_path, "other", "127.0.0.1", NOW - DAY, NOW + 300 * DAY)
    with Listener(good) as there:
        (said,) = Sites.problems_of_server(f"127.0.0.1:{there.port}", stranger[0])
    assert "made by another authority" in said


@pytest.mark.parametrize(("late", "words"), [(60.0, "ahead of"), (-400.0, "behind"), (2.0, None)])
def test_a_clock_that_the_server_does_not_accept_is_named(
    good: tuple[Path, Path], late: float, words: str | None
) -> None:
    with Listener(good, late) as there:
        found = Sites.problems_of_server(f"127.0.0.1:{there.port}", good[0])
    assert len(found) == (words is not None)
    assert words is None or words in found[0]


@pytest.mark.parametrize("date", ["garbage", "", "Sun, 06 Nov 1994 08:49:37 -0000"])
def test_whatever_a_server_says_of_its_clock_has_a_line(good: tuple[Path, Path], date: str) -> None:
    with Listener(good, date=date) as there:
        (said,) = Sites.problems_of_server(f"127.0.0.1:{there.port}", good[0])
    assert ("is no server of a run" in said) != ("The clock of this machine" in said)


def test_a_certificate_that_ends_soon_is_a_warning(tmp_path: Path) -> None:
    files = _files(tmp_path, end=12)
    with (
        Listener(files) as there,
        pytest.warns(RiemdpWarning, match=r"expires in 1[12] days\. .*make_certificates"),
    ):
        assert Sites.problems_of_server(f"127.0.0.1:{there.port}", files[0]) == []


def test_a_port_without_a_server_and_one_in_use_have_their_lines(
    site: Path, good: tuple[Path, Path]
) -> None:
    with Listener(None) as there:
        (said,) = Sites.problems_of_server(f"127.0.0.1:{there.port}", good[0])
        assert "is no server of a run" in said
        code, said = checked(site, "--port", there.port)
        assert code == 2
        assert f"Port {there.port} of this machine is in use" in said
    (said,) = Sites.problems_of_server(f"127.0.0.1:{there.port}", good[0])
    assert "Nothing listens" in said
    assert checked(site, "--port", there.port)[0] == 0
