"""Which method and which metric to believe, where the answer is known: reasons are planted in models, which then use
them verifiably, and explanations are graded against them (after Bastings et al. 2022, arXiv:2111.07367).
"""
