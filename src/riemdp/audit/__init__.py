"""Attacks that try to refute a guarantee, with lower bounds that hold at a stated confidence."""

from ._attacks import AuditResult as AuditResult
from ._attacks import audit_mechanism
from ._bounds import epsilon_lower_bound, gaussian_mu_lower_bound
from ._one_run import OneRunAudit as OneRunAudit
from ._one_run import audit_in_one_run, epsilon_of_guesses
from ._optimizers import audit_optimizer, audit_optimizer_in_one_run

__all__ = [
    "audit_in_one_run",
    "audit_mechanism",
    "audit_optimizer",
    "audit_optimizer_in_one_run",
    "epsilon_lower_bound",
    "epsilon_of_guesses",
    "gaussian_mu_lower_bound",
]
