"""A Hugging Face model behind one door: reading texts, answering, and showing its inside."""

import wherefrom.core.arrays  # noqa: F401  # says so where numpy is too old
