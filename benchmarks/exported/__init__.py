"""Is every family of models that people export compiled once for all sizes, and are the results right?

``python -m benchmarks.exported`` prints a table. The models are built with random weights, by torch and transformers
(``pip install '.[exported]'``), and exported by both of torch's exporters.
"""
