"""The study of "An Attention Matrix for Every Decision" (Mylonas, Mollas and Tsoumakas 2023, Optimus).

Its Tables 1 to 5 and Figures 3 to 7, measured again, and what becomes of its claims. A method is not judged by the
metric that chose it: Optimus by RFT is shown, and counts for no claim.
"""
