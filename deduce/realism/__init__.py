"""How realistic an image is: the paper's AnoGAN score, and second opinions beyond the paper.

To add a score, write a scorer (deduce/realism/score.py says what that is) and its line in deduce/evaluation/metrics.py.
"""
