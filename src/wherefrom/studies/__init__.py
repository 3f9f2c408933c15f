"""One file per paper: its tables, measured here beside the paper's own numbers."""
