"""viewkeeper keeps materialized views exactly right while their data changes."""
