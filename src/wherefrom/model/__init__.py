"""A Hugging Face model behind one door: reading texts, answering, and showing its inside."""
