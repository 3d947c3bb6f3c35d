"""What parts of the models and of their training are worth: one of them changed at a time."""
