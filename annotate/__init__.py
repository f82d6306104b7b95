"""Human review: queues, labelling interfaces, and the exchange with Label Studio."""
