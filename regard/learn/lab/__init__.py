"""Lab: every claim of the notes as an experiment that one can run, with a verdict and the numbers
behind it.

`regard lab` and `run_experiment` call the same. An experiment is a short file in `experiments`.
"""

from regard.common.bilingual import Text
from regard.learn.lab.experiment_runs import find_experiment, run_experiment
from regard.learn.lab.experiments import EXPERIMENTS
from regard.learn.lab.findings import Findings

__all__ = ["EXPERIMENTS", "Findings", "Text", "find_experiment", "run_experiment"]
