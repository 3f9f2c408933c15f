"""Choosing the most faithful explanation among methods of every family."""
