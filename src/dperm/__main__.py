"""`python -m dperm`."""

from dperm.cli import main

if __name__ == "__main__":
    main()
