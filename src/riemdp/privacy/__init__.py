"""Budgets, guarantees, accounting, calibration and the ledger."""
