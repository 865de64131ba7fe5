"""The version, in one place: the build backend and `riemdp.__version__` both read it."""

__version__ = "0.2.0"
