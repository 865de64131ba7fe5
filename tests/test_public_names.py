"""The public names: each reachable at the top and in its room, and none of it costs anything until
it is used.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys

import pytest

import riemdp

ROOMS = riemdp._ROOMS
FACES = {
    "estimators": {"sklearn", "scipy.stats", "pandas"}
}  # subclasses of scikit-learn, which brings the others
HEAVY = ("dp_accounting", "sklearn", "matplotlib", "flwr", "pandas", "scipy.stats")


def exists(room: str) -> bool:
    spec = importlib.util.find_spec(f"riemdp.{room}")
    return (
        spec is not None and spec.origin is not None
    )  # a folder without __init__.py is not a room yet


def room_or_skip(room: str):
    if not exists(room):
        pytest.skip(f"the room riemdp.{room} is not built yet")
    return importlib.import_module(f"riemdp.{room}")


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_is_reached_from_the_top_and_from_its_room(room):
    module = room_or_skip(room)
    assert getattr(riemdp, room) is module
    for name in ROOMS[room]:
        assert getattr(riemdp, name) is getattr(module, name)
        assert name in module.__all__
        assert name in riemdp.__all__
        assert name in dir(riemdp)


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_lists_is_there_and_documented(room):
    module = room_or_skip(room)
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        thing = getattr(module, name)
        assert not name.startswith("_")
        if callable(thing):
            assert thing.__doc__, f"riemdp.{room}.{name} has no docstring"


def test_no_two_rooms_give_the_same_name():
    names = [name for room in ROOMS.values() for name in room]
    assert len(set(names)) == len(names)
    assert not set(names) & set(ROOMS)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = riemdp.no_such_thing


_PROBE = """
import json, sys
import riemdp
seen = {
    "riemdp": [h for h in HEAVY if h in sys.modules],
    "rooms": [m for m in sys.modules if m.startswith("riemdp.")],
}
for room in ROOMS:
    before = {h for h in HEAVY if h in sys.modules}
    try:
        getattr(riemdp, room)
    except ImportError as error:
        seen[room] = [repr(error)]
        continue
    seen[room] = [h for h in HEAVY if h in sys.modules and h not in before]
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def probed() -> dict[str, list[str]]:
    """What a fresh process has loaded after `import riemdp`, and what each room adds to it."""
    # The faces last: what they load would hide that a later room loads it too.
    rooms = sorted((room for room in ROOMS if exists(room)), key=lambda room: room in FACES)
    program = f"HEAVY = {HEAVY!r}\nROOMS = {rooms!r}\n{_PROBE}"
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_the_package_loads_nothing_heavy_and_no_room(probed):
    assert probed["riemdp"] == []
    assert set(probed["rooms"]) <= {"riemdp._errors", "riemdp._version"}


@pytest.mark.parametrize("room", ROOMS)
def test_importing_a_room_loads_nothing_heavy(probed, room):
    if room not in probed:
        pytest.skip(f"the room riemdp.{room} is not built yet")
    assert set(probed[room]) <= FACES.get(room, set())
