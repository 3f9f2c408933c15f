"""Runs over whole data sets: reading them, explaining and measuring every example, keeping the numbers, and the tables made of them."""
