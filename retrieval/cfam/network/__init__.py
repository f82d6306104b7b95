"""What is made of torch: CFAM's network, its losses, and its training."""
