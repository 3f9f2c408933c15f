"""The study of "Measuring the Mixing of Contextual Information in the Transformer" (Ferrando et al. 2022, ALTI).

Its Tables 2, 4, 5, 6 and 7 and Figures 3 and 5 to 12, measured again, and what becomes of its claims. The paper's
baselines have no signs; the same methods with signs stand beside them. Subject-verb agreement has a known right answer:
whether the strongest token is the subject.
"""
