"""FairMOT (Zhang et al., IJCV 2021): one network that finds people and tells them apart."""
