"""Puts the parts of one API server together."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Mapping

from dray import telemetry
from dray.api import features as gates
from dray.api.features import Features
from dray.apiserver import app as application
from dray.apiserver.admission import Chain, Rule
from dray.apiserver.app import App, Authorize, Metrics, Subresource
from dray.apiserver.deletion import Deleter
from dray.apiserver.discovery import Discovery
from dray.apiserver.writes import Writer
from dray.store.store import Store

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels: generated names spell no words, as apimachinery's do not."""
SUFFIX_LENGTH = 5


def assemble(
    store: Store,
    *,
    features: Features = gates.DEFAULT,
    authorize: Authorize = lambda _user, _attributes: None,
    rules: Iterable[Rule] = (),
    subresources: Mapping[tuple[str, str, str], Subresource] | None = None,
    disabled: Iterable[str] = (),
    registry: telemetry.Registry | None = None,
    is_ready: Callable[[], str] = lambda: "",
) -> App:
    """An application over a store. `disabled` are group versions that are switched off."""
    chain = Chain(rules)
    writer = Writer(store, features, chain, new_uid, new_suffix)
    return application.App(
        store=store,
        discovery=Discovery(disabled),
        authorize=authorize,
        writer=writer,
        deleter=Deleter(store, chain),
        metrics=Metrics(registry or telemetry.Registry()),
        subresources=subresources or {},
        is_ready=is_ready,
    )


def new_uid() -> str:
    return str(uuid.uuid4())


def new_suffix() -> str:
    return "".join(random.choices(_SUFFIX_ALPHABET, k=SUFFIX_LENGTH))
