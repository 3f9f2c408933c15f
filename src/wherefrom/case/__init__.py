"""One text, one target, and the passes they need: what a method is given, and how it is run."""
