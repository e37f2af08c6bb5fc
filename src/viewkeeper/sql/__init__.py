"""SQL in Spark's dialect, lowered to the same programs as Datalog."""
