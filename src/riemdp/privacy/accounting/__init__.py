"""The accountant: figures of compositions of known mechanisms, always rounded towards more loss.

    events      what was released: one frozen record for each kind of mechanism
    gaussian    the Gaussian mechanism in closed form
    losses      privacy losses of one event: moments, and distributions on a lattice
    fourier     compositions of many events, by tilted Fourier transforms
    bounds      epsilon(delta) and delta(epsilon): closed forms first, transforms for the rest
    trade_off   true-positive rates of attackers, and groups of records

Only `riemdp.privacy` imports it. Everybody else uses `Guarantee`.
"""
