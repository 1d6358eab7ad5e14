"""Lab: experiments that test the claims of the notes, with a verdict and the numbers behind it.

`run_experiment` is what `regard lab` calls. Each experiment is a short module in `experiments`.
"""

from regard.common.bilingual import Text
from regard.learn.lab.experiment_runs import find_experiment, run_experiment
from regard.learn.lab.experiments import EXPERIMENTS
from regard.learn.lab.findings import Findings

__all__ = ["EXPERIMENTS", "Findings", "Text", "find_experiment", "run_experiment"]
