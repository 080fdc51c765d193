"""First values of a network's parameters, and a network with values as a workload."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import tvm

from ..analysis.infer_type import inferred
from ..ir import Function, RelayExpr, free_vars

__all__ = ["Constant", "Initializer", "Xavier", "create_workload"]

# What a network is given at each run, as opposed to its parameters.
_INPUT = re.compile(r"data(_?\d+)?")


class Initializer:
    """Fills arrays by what the parameter's name ends with.

    Biases, betas and means become 0, gammas and variances 1; a subclass says what weights become, by
    ``_init_weight(name, array)``, and may say so of the others.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs

    def __call__(self, desc: str, arr: np.ndarray) -> None:
        """Fill an array in place.

        Parameters
        ----------
        desc : str
            The parameter's name.
        arr : numpy.ndarray
            What is filled.

        Raises
        ------
        ValueError
            When the name ends with nothing that is known.
        """
        for kind in ("weight", "bias", "gamma", "beta", "mean", "var"):
            if desc.endswith(kind):
                getattr(self, f"_init_{kind}")(desc, arr)
                return
        self._init_default(desc, arr)

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say what the weight {name!r} becomes")

    def _init_bias(self, name: str, arr: np.ndarray) -> None:
        arr[:] = 0.0

    def _init_gamma(self, name: str, arr: np.ndarray) -> None:
        arr[:] = 1.0

    def _init_beta(self, name: str, arr: np.ndarray) -> None:
        arr[:] = 0.0

    def _init_mean(self, name: str, arr: np.ndarray) -> None:
        arr[:] = 0.0

    def _init_var(self, name: str, arr: np.ndarray) -> None:
        arr[:] = 1.0

    def _init_default(self, name: str, arr: np.ndarray) -> None:
        raise ValueError(
            f"the name of the parameter {name!r} does not say how to fill it; it should end with "
            "weight, bias, gamma, beta, mean or var"
        )


class Xavier(Initializer):
    """Fills weights from a uniform distribution of variance ``magnitude / (3 * fan)``.

    Parameters
    ----------
    rnd_type : str
        ``"uniform"``.
    factor_type : str
        Which fan: ``"in"``, ``"out"``, or ``"avg"`` of both.
    magnitude : float
        The scale.

    Notes
    -----
    X. Glorot, Y. Bengio: Understanding the difficulty of training deep feedforward neural networks, 2010. The fans are
    taken from the first two axes, in whatever layout the weight is, as Relay did; values then are Relay's.

    Examples
    --------
    >>> import numpy as np
    >>> from vmkit.relay.testing.init import Xavier
    >>> weight = np.zeros((8, 4))
    >>> Xavier()("fc_weight", weight)
    >>> bool(abs(weight).max() <= np.sqrt(3 / 6))
    True
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        if rnd_type != "uniform":
            raise ValueError(f"rnd_type is 'uniform', not {rnd_type!r}")
        if factor_type not in ("avg", "in", "out"):
            raise ValueError(f"factor_type is 'avg', 'in' or 'out', not {factor_type!r}")
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        if arr.ndim < 2:
            raise ValueError(f"a weight has two axes or more, but {name!r} has the shape {arr.shape}")
        receptive = float(np.prod(arr.shape[2:]))
        fans = {"in": arr.shape[1] * receptive, "out": arr.shape[0] * receptive}
        fans["avg"] = (fans["in"] + fans["out"]) / 2
        # A depthwise kernel sees one channel only.
        fan = receptive if "depthwise" in name else fans[self.factor_type]
        scale = np.sqrt(self.magnitude / fan)
        arr[:] = np.random.uniform(-scale, scale, size=arr.shape)


class Constant(Initializer):
    """Fills weights with one number."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        arr[:] = self.value


def create_workload(
    net: RelayExpr, initializer: Initializer | None = None, seed: int = 0
) -> tuple[tvm.IRModule, dict[str, tvm.runtime.Tensor]]:
    """Return a network as a typed module, and values for all its parameters but ``data``.

    Parameters
    ----------
    net : Function or Expr
        The network; the free variables of an expression become its parameters.
    initializer : Initializer, optional
        What fills the parameters; by default :class:`Xavier`.
    seed : int
        The seed of the random values: equal seeds give equal values, and those that Relay gave.

    Raises
    ------
    ValueError
        When a parameter's shape is not known at compile time, or its name says nothing.
    """
    main = net if isinstance(net, Function) else Function(free_vars(net), net)
    mod = inferred(tvm.IRModule({"main": main}))
    fill = initializer or Xavier()
    params = {}
    # Initializers draw from numpy's global generator, as Relay's did; the caller's draws stay what they were.
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        for parameter in mod["main"].params:
            if _INPUT.fullmatch(parameter.name_hint):
                continue
            ty = parameter.checked_type
            values = np.zeros(ty.concrete_shape, ty.dtype)
            fill(parameter.name_hint, values)
            params[parameter.name_hint] = tvm.runtime.tensor(values)
    finally:
        np.random.set_state(state)
    return mod, params
