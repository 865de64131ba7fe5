"""Geometry: Riemannian manifolds with exact formulas, base point first, batched by broadcasting."""
