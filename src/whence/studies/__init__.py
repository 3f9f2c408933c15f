"""Studies: the papers' tables and figures, measured here."""
