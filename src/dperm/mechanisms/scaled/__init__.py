"""Private centring and scaling first, then a fit whose settings follow from one number; nothing to tune."""
