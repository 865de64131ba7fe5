"""The public names of the package."""

from __future__ import annotations

import types

import riemdp

# package -> its names that stand at the top too
PACKAGES: dict[str, list[str]] = {}
for _name in riemdp.__all__:
    if isinstance(getattr(riemdp, _name), types.ModuleType):
        PACKAGES[_name] = []
for _package, _names in PACKAGES.items():
    _own = getattr(riemdp, _package)
    _names += [
        n for n in _own.__all__ if n in riemdp.__all__ and getattr(riemdp, n) is getattr(_own, n)
    ]


def offered(module: types.ModuleType) -> list[str]:
    """The names of a package: the public ones, and those that it gives to other packages alone."""
    beside = [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "").startswith("riemdp.")
    ]
    return sorted({*module.__all__, *beside})
