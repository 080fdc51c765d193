"""Embeddings of words from their characters."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, check
from vmkit.errors import ModelError

WORDS = {"x": (["words", "letters"], "int32")}
WEIGHTS = {"w": array(4, 1, 3, 5) / 2, "b": array(4, seed=1), "t": array(9, 5, seed=2)}


def test_words_of_several_lengths() -> None:
    sizes = {"char_embedding_size": 5, "conv_window_size": 3, "embedding_size": 4}
    nodes = [ms("WordConvEmbedding", "x w b t", "y"), ms("WordConvEmbedding", "x w b t", "z", **sizes)]
    words = ([[1, 2, 3, 4], [8, 0, 0, 0], [5, 6, 0, 0]], [[1, 2, 3, 4, 5, 6]], [[3, 4, 5, 0, 1, 0]])
    check(microsoft(nodes, WORDS, "y z", WEIGHTS), *({"x": np.array(w, "int32")} for w in words))


def test_a_word_without_letters_is_zeros() -> None:
    compiled = Compiled(microsoft([ms("WordConvEmbedding", "x w b t", "y")], WORDS, "y", WEIGHTS))
    (y,) = compiled(x=np.array([[0, 0, 0], [1, 2, 3]], "int32"))
    assert not y[0].any()
    assert y[1].all()


def test_sizes_that_do_not_fit_are_refused() -> None:
    node = ms("WordConvEmbedding", "x w b t", "y", embedding_size=5)
    with pytest.raises(ModelError, match="embedding_size is 5, and the weights"):
        Compiled(microsoft([node], WORDS, "y", WEIGHTS))
    with pytest.raises(ModelError, match="at least the window of 3"):
        Compiled(microsoft([ms("WordConvEmbedding", "x w b t", "y")], {"x": (["n", 2], "int32")}, "y", WEIGHTS))
