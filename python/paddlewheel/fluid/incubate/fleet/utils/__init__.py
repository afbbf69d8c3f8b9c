"""Tools around fleets."""
