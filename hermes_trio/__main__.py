"""`python -m hermes_trio` is `hermes-trio`."""

from .cli import main

if __name__ == "__main__":
    main()
