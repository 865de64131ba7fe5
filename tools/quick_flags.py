"""Print the value of XLA_FLAGS with which XLA compiles soonest: those flags that it knows here.

XLA ends the process where XLA_FLAGS names a flag of another version.
"""

from __future__ import annotations

from typing import Any

import jax

FLAGS = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


def is_known(name: str, value: Any) -> bool:
    """Whether this version of XLA has an option."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except Exception:  # of a type of its own in each version
        return False
    return True


def main() -> None:
    known = [f"--{name}={value}" for name, value in FLAGS.items() if is_known(name, value)]
    print(" ".join(known).replace("False", "false"))


if __name__ == "__main__":
    main()
