"""Where random numbers come from: ChaCha20 keyed by the operating system, or by a seed for
simulation.
"""

from ._source import NoiseSource, noise_source

__all__ = ["NoiseSource", "noise_source"]
