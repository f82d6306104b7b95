"""UFine6926: described people from street video (UFineBench, section 3.2)."""
