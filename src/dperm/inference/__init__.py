"""Standard errors and intervals: post-processing of released matrices."""
