"""The parts that models are made of, besides attention."""
