"""A describer of people that knows colours and where on a body they are, and nothing else."""
