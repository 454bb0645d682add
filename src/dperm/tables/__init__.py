"""From raw cells to encoded rows, by public rules: one cell is read alone, whatever stands beside it.

cells       one cell → one value          tables, files   columns of every container
schema      the public description         encoding        declared columns → bounded rows, and back
labels      classes and bounds of a target   persons       which rows belong to whom
"""
