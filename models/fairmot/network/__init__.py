"""What is made of torch and imports it at the top: to be imported inside functions only."""
