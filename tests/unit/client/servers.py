"""API servers for tests of the client."""

from __future__ import annotations

from dray import telemetry
from dray.api import features
from dray.apiserver import composition, server
from dray.apiserver.admission.admission_chain import AdmissionChain
from dray.apiserver.app import App, Metrics
from dray.apiserver.discovery import Discovery
from dray.apiserver.verbs.deletion import Deleter
from dray.apiserver.verbs.writes import Writer
from dray.store.store import Store


def open_to_all(store: Store) -> App:
    """Return an application without authorization and admission."""
    chain, gates = AdmissionChain(()), features.DEFAULT
    hooks = composition.body_hooks(gates)
    return App(
        store=store,
        discovery=Discovery(),
        authorize=lambda _user, _attributes: None,
        writer=Writer(
            store,
            gates,
            chain,
            lambda _user, _attributes: None,
            server.new_uid,
            server.new_suffix,
            hooks,
        ),
        deleter=Deleter(store, chain),
        metrics=Metrics(telemetry.Registry()),
    )
