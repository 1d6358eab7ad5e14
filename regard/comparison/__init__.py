"""Comparisons: several models, one report.

`compare` (in Python) and `regard compare` call the same application. `result` is the data that it
returns and writes; `report` draws a page of them.
"""

from regard.comparison.result import Comparison
from regard.comparison.run_comparison import CompareRequest, compare, compare_request

__all__ = ["CompareRequest", "Comparison", "compare", "compare_request"]
