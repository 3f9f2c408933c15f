"""Which passages made a language model give an answer, and a test of that."""
