"""declare → plan → check → run → reconcile → release (`fitting`), and the certificate that says so (`certificate`)."""

from dperm.walk.fitting import Release, fit, plan

__all__ = ["Release", "fit", "plan"]
