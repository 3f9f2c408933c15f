"""The study of sources: which method finds the sentence that an answer came from.

SmolLM2-135M-Instruct, or any causal language model, answers questions of SQuAD with the paragraph that contains the
answer among others. The sentence with the answer is known, and removals that a method did not use grade it.
"""
