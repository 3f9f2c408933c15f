"""Experiments of papers, measured here beside the papers' own numbers: one folder per study."""

__version__ = "0.1.0"
