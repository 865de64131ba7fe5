"""One order of arguments: the space, the records, the ball, the budget."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "riemdp"
ORDER = ["manifold", "X", "ball", "budget"]
# A sampler takes its source of randomness first, as those of JAX do.
EXCEPTIONS = {"sampling.riemannian_laplace"}


def public_functions() -> dict[str, list[str]]:
    """The positional parameters of every public function, by `package.name`."""
    found = {}
    for init in SOURCES.glob("*/__init__.py"):
        tree = ast.parse(init.read_text(encoding="utf-8"))
        lists = [n.value for n in tree.body if isinstance(n, ast.Assign)]
        names = {e.value for n in lists for e in getattr(n, "elts", []) if hasattr(e, "value")}
        for file in init.parent.rglob("*.py"):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef) and node.name in names:
                    given = [*node.args.posonlyargs, *node.args.args]
                    found[f"{init.parent.name}.{node.name}"] = [a.arg for a in given]
    return found


def out_of_order(parameters: list[str]) -> bool:
    known = [p for p in parameters if p in ORDER]
    first = "manifold" not in parameters or parameters[0] == "manifold"
    return known != sorted(known, key=ORDER.index) or not first


def test_public_functions_have_one_order_of_arguments() -> None:
    functions = public_functions()
    assert functions["releases.private_frechet_mean"][:4] == ORDER
    assert len(functions) > 60
    assert {name for name, given in functions.items() if out_of_order(given)} == EXCEPTIONS


def test_another_order_is_noticed() -> None:
    assert out_of_order(["X", "manifold"])
    assert out_of_order(["seed", "manifold"])
    assert out_of_order(["manifold", "budget", "ball"])
    assert not out_of_order(["manifold", "X", "budget"])
