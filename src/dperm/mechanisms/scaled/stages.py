"""What each stage of a scaled method lets out, for people who read a plan."""

from __future__ import annotations

# Squares of a wide table, step by step: the norms of the rows' squares, and the squares cut to a quantile of them.
SQUARES = (("rough square norms", "rough squares"), ("square norms", "squares"), ("finer square norms", "finer squares"))

RELEASES = {
    "octaves": "histogram of signs and magnitudes of each column without declared bounds",
    "cells": "histogram of each such column inside the range that the first one found",
    "row norms": "histogram of the rows' norms",
    "rough mean": "sum of the rows, for a first centre",
    "rough radius": "histogram of the rows' distances from it",
    "mean": "sum of the rows",
    "present": "number of present cells of each column that may have missing ones",
    "radius": "histogram of the centred rows' norms",
    "rough square norms": "histogram of the norms of the centred rows' squares",
    "rough squares": "sum of squares of each centred column, for a first scale",
    "square norms": "histogram of the norms of the squares of rows in that scale",
    "squares": "sum of squares of each centred column",
    "finer square norms": "histogram of the norms of the squares of rows in the scale of the second sum",
    "finer squares": "sum of squares of each column in that scale, for the last one",
    "moments": "second moments of the centred rows",
    "size": "sum of squared norms of the whitened rows",
    "positives": "number of positive labels",
    "label mean": "sum of the labels",
    "residuals": "histogram of the residuals at the start",
    "residuals again": "histogram of the residuals after a third of the steps",
    "descent": "sums of clipped gradients, as many as the released scale asks for",
    "marginals": "histogram of each numeric column over 256 cells of its range, and one of missing cells",
    "recalibration": "four sums that correct the level and the slope of the predictions",
    "level": "sum of the residuals, cut at three of their scales, that corrects the level of the predictions",
}
