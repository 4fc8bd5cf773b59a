"""How realistic an image is: the paper's AnoGAN score, its sanity checks, and second opinions beyond the paper."""
