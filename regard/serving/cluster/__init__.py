"""Work on a cluster by Ray (extra `scale`): files and tables translated by many machines, and
replicas of the server.

Ray finds the machines, places workers on them and restarts lost ones. Its tasks translate chunks,
and Ray Serve distributes requests. The results are those of a single machine.
"""
