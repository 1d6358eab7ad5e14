"""How good a model is: scores with their signatures, by length, and how well its attention aligns words."""
