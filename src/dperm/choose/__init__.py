"""method="auto": a decision table over public numbers (`table`), and what the theorems say of each alternative (`risks`)."""
