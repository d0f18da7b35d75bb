"""get and list for every kind: from stored bytes to the requested form."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

import msgspec
import yaml

from dray.api import errors, http_messages, kinds
from dray.api.conversion import versions
from dray.api.formats import gonumbers, gotext
from dray.api.http_messages import Request, Response
from dray.api.ids import GroupKind
from dray.api.kinds import GroupVersionKind
from dray.api.types.meta import JsonObject
from dray.apiserver.printing import tables
from dray.apiserver.request import negotiation, offloading, selection
from dray.apiserver.request.call import Call
from dray.apiserver.request.negotiation import Form, Shape
from dray.apiserver.request.selection import StoredObjectSelector
from dray.apiserver.storage import codec, store_keys
from dray.store.store import Entry, Store

CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
MAX_BLOCK_YAML_BYTES = 64 * 2**10
PAGE_ENTRIES = 1000
"""The number of entries per read if a selector may exclude most of them."""


class StoredObject(NamedTuple):
    """An entry of the store, and its object in the storage version."""

    entry: Entry
    document: JsonObject


async def get(call: Call, store: Store) -> Response:
    return respond_stored(call, await stored_entry(call, store))


async def stored_entry(call: Call, store: Store) -> Entry:
    """Return the stored object of the request. Raises NotFound."""
    with store_keys.translated():
        entry = await store.get(call.key)
    if entry is None:
        raise call.not_found()
    return entry


async def stored_object(call: Call, store: Store) -> StoredObject:
    """Return the stored object of the request, decoded. Raises NotFound."""
    entry = await stored_entry(call, store)
    return StoredObject(entry, codec.from_stored(entry, store_keys.storage_gvk(call.kind)))


def respond_stored(
    call: Call, entry: Entry, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a stored object in the form that the client accepts, if possible undecoded."""
    gvk = call.gvk
    if call.form == negotiation.PLAIN and has_storage_fields(gvk):
        return json_response(codec.whole(entry, gvk), status, headers)
    return respond(call, document_of(entry, gvk), status, headers)


def has_storage_fields(gvk: GroupVersionKind) -> bool:
    return versions.has_storage_fields(gvk.api_version, gvk.kind)


def document_of(entry: Entry, gvk: GroupVersionKind) -> JsonObject:
    """Return the object in this version."""
    kind = kinds.by_kind(gvk.group, gvk.kind)
    assert kind is not None
    stored = codec.from_stored(entry, store_keys.storage_gvk(kind))
    return versions.from_storage(stored, gvk.api_version)


def respond(
    call: Call, document: JsonObject, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return one object in the form that the client accepts."""
    form = call.form
    if form.shape is Shape.TABLE:
        metadata = {"resourceVersion": document["metadata"].get("resourceVersion", "")}
        document = table(call, [document], metadata)
    elif form.is_metadata:
        document = tables.partial_metadata(document)
    return encoded(form, document, status, headers or {})


def table(
    call: Call, documents: list[JsonObject], metadata: JsonObject, *, with_columns: bool = True
) -> JsonObject:
    include = included(call.request)
    return tables.table(
        call.kind, documents, metadata, now=call.now, include=include, with_columns=with_columns
    )


def encoded(form: Form, document: JsonObject, status: int, headers: dict[str, str]) -> Response:
    if form.media_type == http_messages.YAML:
        body = codec.encode(document)
        # JSON is YAML, too: a large document is not written anew, which takes a hundred times as
        # long.
        if len(body) <= MAX_BLOCK_YAML_BYTES:
            body = yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False).encode()
        return Response(status, {"content-type": http_messages.YAML, **headers}, body)
    return json_response(codec.encode(document), status, headers)


def json_response(
    body: bytes, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(status, {"content-type": http_messages.JSON, **(headers or {})}, body)


def included(request: Request) -> str:
    include = request.parameter("includeObject", tables.METADATA)
    if include not in (tables.METADATA, tables.NONE, tables.OBJECT):
        raise errors.bad_request(
            "Unable to convert to Table as requested: includeObject: Invalid value: "
            f"{gotext.quote(include)}: must be 'Metadata', 'Object', 'None', or empty"
        )
    return include


class ListOptions(NamedTuple):
    """Options of a list: limit, start and revision."""

    limit: int = 0
    start: str = ""
    revision: int | None = None
    """Exactly this revision; None for the newest."""
    minimum: int = 0
    """The state must be at least of this revision."""


class Listing(NamedTuple):
    """Entries of a list; `next_start` is the key after which the next page starts."""

    entries: list[Entry]
    revision: int
    next_start: str = ""
    remaining: int | None = None


async def list_(call: Call, store: Store) -> Response:
    selector = selection.parse(call.request, call.kind, call.info.version)
    options = parse_list_options(call.request)
    prefix = store_keys.prefix(call.kind, call.namespace)
    try:
        with store_keys.translated():
            listing = await gather(store, prefix, call.gvk, selector, options)
    except errors.Expired as error:
        if not options.start:
            raise
        # The error of an expired continue token has a new one.
        raise errors.expired(CONTINUE_TOO_OLD, make_continue(-1, options.start)) from error
    if listing.revision < options.minimum:
        raise errors.too_large_resource_version(options.minimum, listing.revision)
    metadata = list_metadata(listing, prefix)
    is_large = len(listing.entries) > offloading.MANY_ENTRIES
    return await offloading.call(is_large, _respond_list, call, listing, metadata)


def _respond_list(call: Call, listing: Listing, metadata: JsonObject) -> Response:
    form = call.form
    if form == negotiation.PLAIN and has_storage_fields(call.gvk):
        return json_response(encode_list(call, metadata, map(codec.item, listing.entries)))
    documents = [document_of(entry, call.gvk) for entry in listing.entries]
    return encoded(form, _list_document(call, documents, metadata), 200, {})


def _list_document(call: Call, documents: list[JsonObject], metadata: JsonObject) -> JsonObject:
    if call.form.shape is Shape.TABLE:
        return table(call, documents, metadata)
    if call.form.is_metadata:
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "items": [tables.partial_metadata(document) for document in documents],
        }
    for document in documents:
        del document["kind"], document["apiVersion"]
    return {
        "kind": call.kind.list_kind,
        "apiVersion": call.gvk.api_version,
        "metadata": metadata,
        "items": documents,
    }


def encode_list(call: Call, metadata: JsonObject, items: Iterable[bytes]) -> bytes:
    head = codec.encode(
        {"kind": call.kind.list_kind, "apiVersion": call.gvk.api_version, "metadata": metadata}
    )
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(items))


def list_metadata(listing: Listing, prefix: str) -> JsonObject:
    metadata: JsonObject = {"resourceVersion": str(listing.revision)}
    if listing.next_start:
        metadata["continue"] = make_continue(
            listing.revision, listing.next_start.removeprefix(prefix)
        )
        if listing.remaining is not None:
            metadata["remainingItemCount"] = listing.remaining
    return metadata


async def gather(
    store: Store,
    prefix: str,
    gvk: GroupVersionKind,
    selector: StoredObjectSelector,
    options: ListOptions,
) -> Listing:
    """Return the selected entries up to the limit, all as of one revision."""
    after = prefix + options.start if options.start else ""
    if selector.is_everything:
        page = await store.list(
            prefix, limit=options.limit, after_key=after, revision=options.revision
        )
        last = page.entries[-1].key if page.remaining else ""
        return Listing(page.entries, page.revision, last, page.remaining or None)
    selected: list[Entry] = []
    revision = options.revision
    async for entries, at, has_more in _pages(store, prefix, after, options):
        revision = at
        is_large = len(entries) > offloading.MANY_ENTRIES
        wanted = options.limit - len(selected) if options.limit else 0
        found, read = await offloading.call(is_large, _select, entries, gvk, selector, wanted)
        selected += found
        if options.limit and len(selected) == options.limit:
            more = has_more or read < len(entries)
            return Listing(selected, at, entries[read - 1].key if more else "")
    assert revision is not None
    return Listing(selected, revision)


def _select(
    entries: list[Entry], gvk: GroupVersionKind, selector: StoredObjectSelector, limit: int
) -> tuple[list[Entry], int]:
    """Return the matching entries, at most `limit` unless it is 0, and how many were read."""
    selected: list[Entry] = []
    for number, entry in enumerate(entries):
        if selector.matches(codec.from_stored(entry, gvk)):
            selected.append(entry)
            if len(selected) == limit:
                return selected, number + 1
    return selected, len(entries)


async def _pages(
    store: Store, prefix: str, after: str, options: ListOptions
) -> AsyncIterator[tuple[list[Entry], int, bool]]:
    revision = options.revision
    size = PAGE_ENTRIES if options.limit else 0
    while True:
        page = await store.list(prefix, limit=size, after_key=after, revision=revision)
        revision = page.revision
        yield page.entries, page.revision, bool(page.remaining)
        if not page.remaining:
            return
        after = page.entries[-1].key


def parse_list_options(request: Request) -> ListOptions:
    limit = max(integer(request, "limit"), 0)
    integer(request, "timeoutSeconds")
    match = request.parameter("resourceVersionMatch")
    requested_revision = parse_resource_version(request.parameter("resourceVersion"))
    token = request.parameter("continue")
    if request.parameter("sendInitialEvents"):
        raise forbidden_list_option("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if token:
        return _continued(token, limit, requested_revision, match)
    _check_match(request.parameter("resourceVersion"), match)
    # Only these two read history; all others get the newest state.
    if match == "Exact" or (not match and limit and requested_revision):
        return ListOptions(limit, "", requested_revision)
    return ListOptions(limit, "", None, requested_revision)


def _continued(token: str, limit: int, requested_revision: int, match: str) -> ListOptions:
    if match:
        why = "resourceVersionMatch is forbidden when continue is provided"
        raise forbidden_list_option("resourceVersionMatch", why)
    start, revision = parse_continue(token)
    if requested_revision:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    return ListOptions(limit, start, revision if revision > 0 else None)


def _check_match(resource_version: str, match: str) -> None:
    if match not in ("", "Exact", "NotOlderThan"):
        raise _invalid_list_option(
            "resourceVersionMatch",
            "FieldValueNotSupported",
            f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""',
        )
    if match and not resource_version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise forbidden_list_option("resourceVersionMatch", why)
    if match == "Exact" and resource_version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise forbidden_list_option("resourceVersionMatch", why)


def forbidden_list_option(field: str, why: str) -> errors.Invalid:
    return _invalid_list_option(field, "FieldValueForbidden", f"Forbidden: {why}")


def _invalid_list_option(field: str, reason: str, message: str) -> errors.Invalid:
    cause = errors.Cause(field, reason, message)
    return errors.invalid(GroupKind("meta.k8s.io", "ListOptions"), "", [cause])


def parse_resource_version(text: str) -> int:
    """Return the revision, 0 for an empty text. Raises 400, worded as Go does."""
    if not text:
        return 0
    try:
        return gonumbers.uint64(text)
    except gonumbers.NumberError as error:
        raise errors.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text[:256]}": {error}'
        ) from error


def integer(request: Request, name: str) -> int:
    """Return a numeric parameter, 0 if it is absent. Raises 400, worded as Go does."""
    text = request.parameter(name)
    try:
        return gonumbers.int64(text) if text else 0
    except gonumbers.NumberError as error:
        raise errors.bad_request(str(error)) from error


class _ContinueToken(msgspec.Struct):
    v: str
    rv: int
    start: str


def make_continue(revision: int, start: str) -> str:
    token = _ContinueToken("meta.k8s.io/v1", revision, start)
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def parse_continue(text: str) -> tuple[str, int]:
    """Return the start and the revision of a continue token."""
    try:
        decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(decoded, type=_ContinueToken)
        gonumbers.int64(str(token.rv))
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise errors.bad_request(
            f"invalid continue token: continue key is not valid: {error}"
        ) from error
    return token.start, token.rv
