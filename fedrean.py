"""fedrean's one public name."""
