"""`python -m riemdp` is the command `riemdp`."""

from .cli import main

if __name__ == "__main__":
    main()
