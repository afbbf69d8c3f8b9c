"""What all fleets share."""
