"""Compare several models on one test set, and report the result.

The command `regard compare` calls `compare`. `result` defines the data that it returns and writes;
`report` renders them as a page.
"""

from regard.comparison.result import Comparison
from regard.comparison.run_comparison import compare

__all__ = ["Comparison", "compare"]
