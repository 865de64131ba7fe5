"""Attacks that try to refute a guarantee, with lower bounds that hold at a stated confidence."""

from ._attacks import AuditResult, audit_mechanism
from ._bounds import epsilon_lower_bound, gaussian_mu_lower_bound
from ._optimizers import audit_optimizer

__all__ = [
    "AuditResult",
    "audit_mechanism",
    "audit_optimizer",
    "epsilon_lower_bound",
    "gaussian_mu_lower_bound",
]
