"""The study of "AttCAT: Explaining Transformers via Attentive Class Activation Tokens" (Qiang et al. 2022).

Its Tables 1 and 2, Figures 3, 4 and 5, measured again, and what becomes of its claims.
"""
