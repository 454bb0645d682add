"""The walk from a plan to a release: what a mechanism may ask (`asks`), and the one place that answers (`driver`)."""
