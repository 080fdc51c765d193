"""What pytest collects of the tests of PyTorch's programs."""

# Looking for doctests in it would leave it half imported where PyTorch is not installed: the tests that import
# it then would fail, instead of being skipped as it says.
collect_ignore = ["programs.py"]
