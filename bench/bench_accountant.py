"""Times of the accountant beside published ones, and what each of them finds.

    python -m bench.bench_accountant

Results are kept within a process; before each of our calls what is kept is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from dp_accounting import pld
from prv_accountant import PRVAccountant
from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism
from random_allocation.comparisons.structs import PrivacyParams, SchemeConfig
from random_allocation.random_allocation_scheme.combined import allocation_epsilon_combined

from riemdp import subsampled_gaussian
from riemdp.privacy import allocated_gaussian
from riemdp.privacy.accounting import allocation, bounds, fourier, losses

from ._timing import Row, compared, write_table

Z, RATE, STEPS, DELTA = 1.0, 0.01, 1000, 1e-5
ORDERS = SchemeConfig(allocation_direct_alpha_orders=list(range(2, 61)))  # Renyi orders
KEPT = (allocation, bounds, fourier, losses)


def anew(call: Callable[[], float]) -> Callable[[], float]:
    """The call without what earlier ones left behind."""

    def run() -> float:
        for module in KEPT:
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
        return call()

    return run


def poisson() -> float:
    guarantee = subsampled_gaussian(
        Z, population=10_000, batch_size=100, steps=STEPS, sampling="poisson"
    )
    return guarantee.epsilon(DELTA)


def by_dp_accounting() -> float:
    distribution = pld.privacy_loss_distribution.from_gaussian_mechanism(Z, sampling_prob=RATE)
    return distribution.self_compose(STEPS).get_epsilon_for_delta(DELTA)


def by_prv_accountant() -> float:
    distribution = PoissonSubsampledGaussianMechanism(noise_multiplier=Z, sampling_probability=RATE)
    accountant = PRVAccountant(
        prvs=[distribution], max_self_compositions=[STEPS], eps_error=0.01, delta_error=DELTA / 1000
    )
    return accountant.compute_epsilon(DELTA, [STEPS])[2]


def allocated(z: float, steps: int, epochs: int) -> Callable[[], float]:
    return lambda: allocated_gaussian(z, steps=steps, epochs=epochs).epsilon(DELTA)


def by_random_allocation(z: float, steps: int, epochs: int) -> Callable[[], Any]:
    scheme = PrivacyParams(sigma=z, num_steps=steps, num_epochs=epochs, delta=DELTA)
    return lambda: allocation_epsilon_combined(params=scheme, config=ORDERS)


def rows() -> list[Row]:
    found = []
    subsampled = f"{STEPS} Poisson steps, z {Z:g}, rate {RATE:g}, delta {DELTA:g}"
    cases = [
        (subsampled, poisson, f"dp-accounting {version('dp-accounting')}", by_dp_accounting),
        (subsampled, poisson, f"prv-accountant {version('prv-accountant')}", by_prv_accountant),
    ]
    for scheme in ((1.0, 100, 10), (1.0, 1000, 1)):
        work = "allocation, z {:g}, {} steps, {} epochs, ".format(*scheme) + f"delta {DELTA:g}"
        name = f"random-allocation {version('random-allocation')}"
        cases.append((work, allocated(*scheme), name, by_random_allocation(*scheme)))
    for work, ours, name, theirs in cases:
        work = f"{work}: epsilon {ours():.4f}, theirs {theirs():.4f}"
        found.append(compared(work, name, anew(ours), theirs, repeats=5, budget=30.0))
    return found


def main() -> None:
    notes = ("Every figure is an upper bound: the smaller one is the better one.",)
    print(write_table("accountant", "The accountant beside published ones", rows(), notes))


if __name__ == "__main__":
    main()
