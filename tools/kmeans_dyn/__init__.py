"""k centres and outliers over a live stream."""
