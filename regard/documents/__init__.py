"""Documents: markup translated with its tags kept, and texts split into sentences and put together again."""
