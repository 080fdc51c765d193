"""The scripts are no test modules: they are run by themselves, with the names of Relay installed."""

collect_ignore_glob = ["scripts/*"]
