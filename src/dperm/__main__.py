"""`python -m dperm`."""

from dperm.cli import main

main()
