"""Texts that a tiny model can read."""

TEXTS = [
    "a fine film",
    "the plot was dull , but the acting is great !",
    "not bad",
    "it is a very good movie and the acting was fine .",
    "never a dull plot",
    "the film is not good , it was bad .",
    "great acting",
    "a movie , but not a good movie",
    "is it a film ?",
    "the acting was great and the plot is very good",
]
