"""Techniques as functions from Program to Program."""
