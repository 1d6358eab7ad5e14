"""Work on a cluster by Ray (extra `scale`): files and tables translated by many machines, and
replicas of the server.

Ray finds the machines, places workers on them and starts lost ones again; its tasks translate
chunks, Ray Serve spreads requests. What is computed is what one machine computes.
"""
