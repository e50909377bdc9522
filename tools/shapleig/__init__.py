"""Shapley values when one evaluation is a batch job."""
