"""One evaluator, two engines: core programs in, rows out."""
