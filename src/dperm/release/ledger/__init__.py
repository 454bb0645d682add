"""A durable budget across fits (`book`), and the check of its chain (`check`)."""

from dperm.release.ledger.book import BudgetExceeded, Ledger

__all__ = ["BudgetExceeded", "Ledger"]
