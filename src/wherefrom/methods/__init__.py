"""One method, one file, one function. Each module's first sentence says what its scores mean."""
