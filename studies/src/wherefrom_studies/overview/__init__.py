"""One page over all studies: every method on every data set by every metric, under the one protocol.

It reads what the other studies left in their folders, and measures nothing itself. Papers rank different methods on
different data sets; so a method's place is given as the share of the other methods that are better (0: it is the first,
1: the last), and the mean of places counts every data set once. Variants that belong to one paper stay on its page.
"""
