"""The one representation of programs, and what can be said about a program without running it."""
