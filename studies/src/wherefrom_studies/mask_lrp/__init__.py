"""The study of "Better Explain Transformers by Illuminating Important Information" (Song et al. 2024, Mask-LRP).

Its Tables 1 to 4 and Figures 1 and 3 to 6, measured again, and what becomes of its claims. Head maps are measured on
each data set itself, on texts that nothing else is measured on; pairs are read as pairs.
"""
