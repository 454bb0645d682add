"""From a plan to a release: what a mechanism may ask (`asks`), the one place that answers (`driver`), noise, and the ledger."""
