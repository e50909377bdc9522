"""Whole models: calibrate, quantize block by block, store; everything here deals in files and needs torch."""
