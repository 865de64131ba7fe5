"""Where random numbers come from: the operating system, ChaCha20 keyed by it, or ChaCha20 keyed by
a seed for simulation.
"""

from ._source import NoiseSource, noise_source

__all__ = ["NoiseSource", "noise_source"]
