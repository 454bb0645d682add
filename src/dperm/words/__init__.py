"""Leaves: how things are spelt, worded, announced and counted while they run."""
