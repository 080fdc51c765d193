"""Pages: pictures of models and of profiles, each one self-contained HTML file that any browser shows offline."""

from .graph import Edge, Graph, Node
from .graph_page import graph_of, graph_page
from .profile_page import profile_page

__all__ = ["Edge", "Graph", "Node", "graph_of", "graph_page", "profile_page"]
