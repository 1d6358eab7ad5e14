"""What there is to learn from: attention worked through by hand, a dictionary that is read softly, what layers cost."""
