"""Values: what functions take and give, in Python and in the runtime, and the bytes behind them."""
