"""What the tests of captured attention share."""
