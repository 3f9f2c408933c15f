"""Views of explanations, made from their plain numbers alone: the terminal, notebooks and pages."""
