"""What released matrices say about the error of a fit: pure post-processing, without rows and without noise."""
