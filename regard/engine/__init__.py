"""Fast decoding."""
