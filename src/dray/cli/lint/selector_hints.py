"""Corrections of CEL selectors, each of which is compiled and tried on devices.

`candidates` makes small corrections of what people commonly write; `corrected` combines up to three
of them until the selector compiles and, where devices are known, matches one of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dray.api.features import Features
from dray.api.formats import quantity
from dray.api.ids import PoolId
from dray.api.types.dra import Device
from dray.cli.inputs import selector_report
from dray.cli.inputs.selector_report import Report
from dray.cli.lint.field_changes import SetField
from dray.cli.lint.findings import Suggestion
from dray.explain.selectors import expressions, spelling
from dray.explain.selectors.expressions import (
    ATTRIBUTES,
    CAPACITY,
    QUANTITY,
    SEMVER,
    SelectorSubject,
)

Devices = Sequence[tuple[PoolId, Device]]

_ROUNDS = 3
_TRIES = 120
_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_FUNCTIONS = (
    *("startsWith", "endsWith", "contains", "matches", "compareTo", "isGreaterThan", "isLessThan"),
    *("quantity", "semver", "has", "size", "exists", "all", "lowerAscii", "upperAscii", "orValue"),
)
_WORDS = {"and": "&&", "or": "||", "not": "!", "AND": "&&", "OR": "||", "NOT": "!"}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class Correction(NamedTuple):
    """A corrected selector, and what was wrong."""

    text: str
    reason: str


def suggestions(field: str, expression: str, features: Features) -> Iterator[Suggestion]:
    """Yield the correction of a selector that does not compile."""
    found = corrected(expression, features)
    if found is not None:
        yield _suggestion(field, found)


def on_devices(
    field: str, expression: str, features: Features, devices: Devices
) -> Iterator[Suggestion]:
    """Yield the correction of a selector that compiles and matches none of the devices."""
    found = corrected(expression, features, devices)
    if found is not None:
        yield _suggestion(field, found)


def thresholds(
    field: str, expression: str, features: Features, devices: Devices
) -> Iterator[Suggestion]:
    """Yield the selector with the largest amount that a device has."""
    for compared in expressions.comparisons(expression):
        if compared.subject.field != CAPACITY or compared.relation not in (">", ">="):
            continue
        amounts = [amount for pair in devices if (amount := _amount(compared.subject, *pair))]
        most = max(amounts, key=quantity.parse, default="")
        new = expressions.replaced(expression, compared.span, expressions.written(most))
        if most and _is_good(selector_report.make(new, features, devices)):
            words = f"The largest {compared.subject.name} is {most}.\nWould match: {new}"
            yield Suggestion(words, (SetField(field, new),), is_correction=False)


def _amount(subject: SelectorSubject, pool: PoolId, device: Device) -> str:
    """Return the capacity of a device as it is published, or ""."""
    name = subject.name if subject.domain == pool.driver else f"{subject.domain}/{subject.name}"
    capacity = device.capacity.get(name) or device.capacity.get(f"{subject.domain}/{subject.name}")
    return capacity.value if capacity is not None else ""


def _suggestion(field: str, found: Correction) -> Suggestion:
    reason = f"{found.reason}\n" if found.reason else ""
    return Suggestion(f"{reason}Did you mean: {found.text}", (SetField(field, found.text),))


def corrected(expression: str, features: Features, devices: Devices = ()) -> Correction | None:
    """Return a selector that compiles and, if there are devices, matches one; None without one."""
    tries = 0
    seen = {expression}
    current = [Correction(expression, "")]
    for _ in range(_ROUNDS):
        following: list[Correction] = []
        for base in current:
            report = selector_report.make(base.text, features, devices)
            for text, reason in candidates(base.text, report, devices):
                tries += 1
                if text in seen or tries > _TRIES:
                    continue
                seen.add(text)
                reasons = " ".join(dict.fromkeys(filter(None, (base.reason, reason))))
                found = Correction(text, reasons)
                if _is_good(selector_report.make(text, features, devices)):
                    return found
                following.append(found)
        current = following
    return None


def _is_good(report: Report) -> bool:
    if report.error:
        return False
    has_errors = any(shape.answer == selector_report.ERROR for shape in report.shapes)
    return not report.devices or (report.matched > 0 and not has_errors)


def candidates(text: str, report: Report, devices: Devices) -> Iterator[Correction]:
    """Yield small corrections of a selector, the likeliest first."""
    for correction in _TEXT_CORRECTIONS:
        yield from correction(text)
    if not report.error:
        yield from _by_devices(text, report, devices)
    yield from _quantities(text)


def _outside_strings(text: str, pattern: str, replacement: str) -> str:
    """Return the text with a pattern replaced, except in string literals."""
    parts: list[str] = []
    end = 0
    for match in _STRING.finditer(text):
        parts += [re.sub(pattern, replacement, text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*parts, re.sub(pattern, replacement, text[end:])])


def _quotes(text: str) -> Iterator[Correction]:
    plain = text.translate({0x201C: '"', 0x201D: '"', 0x2018: "'", 0x2019: "'"})
    if plain != text:
        yield Correction(plain, "Typographic quotation marks are not CEL.")
    inner = text.strip()
    if len(inner) > 1 and inner[0] == inner[-1] and inner[0] in "\"'" and "device" in inner:
        yield Correction(inner[1:-1], "The expression is in quotation marks twice.")


def _equals_sign(text: str) -> Iterator[Correction]:
    yield from _changed(text, r"(?<![=!<>])=(?![=~])", "==", "Equality is `==` in CEL.")
    yield from _changed(text, r"===", "==", "Equality is `==` in CEL.")
    yield from _changed(text, r"<>", "!=", "Inequality is `!=` in CEL.")
    match = re.search(r"([^\s&|]+)\s*=~\s*((?:\"[^\"]*\")|(?:'[^']*'))", text)
    if match:
        new = f"{text[: match.start()]}{match[1]}.matches({match[2]}){text[match.end() :]}"
        yield Correction(new, "A regular expression is tested with matches().")


def _operators(text: str) -> Iterator[Correction]:
    joined = text
    for word, operator in _WORDS.items():
        joined = _outside_strings(
            joined, rf"\b{word}\b ?", f"{operator} " if operator != "!" else "!"
        )
    if joined != text:
        yield Correction(joined, "And, or and not are `&&`, `||` and `!` in CEL.")
    yield from _changed(text, r"(?<!&)&(?!&)", "&&", "And is `&&` in CEL.")
    yield from _changed(text, r"(?<!\|)\|(?!\|)", "||", "Or is `||` in CEL.")
    yield from _changed(text, r"\bTrue\b", "true", "CEL writes true and false in lower case.")
    yield from _changed(text, r"\bFalse\b", "false", "CEL writes true and false in lower case.")


def _changed(text: str, pattern: str, new: str, reason: str) -> Iterator[Correction]:
    changed = _outside_strings(text, pattern, new)
    if changed != text:
        yield Correction(changed, reason)


def _device(text: str) -> Iterator[Correction]:
    """Correct what is read of the device."""
    reason = "A selector reads `device`."
    yield from _changed(
        text, r"(?<![\w.])(attributes|capacity|driver)(?=[.\[ =])", r"device.\1", reason
    )
    yield from _changed(text, r"\bdevices\.", "device.", reason)
    yield from _changed(
        text, r"\bdevice\.attribute\b", "device.attributes", "The field is attributes."
    )
    yield from _changed(
        text, r"\bdevice\.capacities\b", "device.capacity", "The field is capacity."
    )
    joined = re.sub(
        r"device\.(attributes|capacity)\[(['\"])([\w.-]+)/(\w+)\2\]", r'device.\1["\3"].\4', text
    )
    if joined != text:
        yield Correction(joined, "The domain is the key and the name a field of it.")
    dotted = re.sub(
        r"device\.(attributes|capacity)\.([a-z0-9-]+(?:\.[a-z0-9-]+)+)\.(\w+)(?=\W)",
        r'device.\1["\2"].\3',
        text,
    )
    if dotted != text:
        yield Correction(dotted, "A domain is a key in brackets.")
    unquoted = re.sub(
        r"device\.(attributes|capacity)\[([a-z0-9-]+(?:\.[a-z0-9-]+)+)\]", r'device.\1["\2"]', text
    )
    if unquoted != text:
        yield Correction(unquoted, "A domain is text in quotation marks.")


def _functions(text: str) -> Iterator[Correction]:
    """Correct the names of functions, and text and quantities without quotation marks."""
    for match in re.finditer(r"\b([A-Za-z_]+)\(", _STRING.sub('""', text)):
        close = spelling.similar(match[1], _FUNCTIONS) if match[1] not in _FUNCTIONS else []
        if close:
            new = re.sub(rf"\b{match[1]}\(", f"{close[0]}(", text)
            yield Correction(new, f"The function is {close[0]}().")
    unit = r"(?<![\w\"'.])(\d+(?:\.\d+)?(?:[KMGTPE]i?|k|m)[bB]?)\b"
    yield from _changed(text, unit, r'"\1"', "A quantity is text in quotation marks.")
    bare = r"(==|!=) *([A-Za-z][\w-]*)(?![\w.(\[\"'])"
    for match in re.finditer(bare, _STRING.sub(lambda found: "_" * len(found[0]), text)):
        if match[2] not in ("true", "false", "device", "null"):
            new = f'{text[: match.start(2)]}"{match[2]}"{text[match.end(2) :]}'
            yield Correction(new, "Text is written in quotation marks.")
    units = re.sub(r"(quantity\(['\"])([\d.]+)\s*([KMGTPE])(i?)[bB](['\"]\))", r"\1\2\3i\5", text)
    if units != text:
        yield Correction(units, "Units of quantities have no B: Gi (powers of 1024) or G.")
    versions = re.sub(
        r"semver\((['\"])v?(\d+)(\.\d+)?(['\"])\)",
        lambda found: f"semver({found[1]}{found[2]}{found[3] or '.0'}.0{found[4]})",
        text,
    )
    if versions != text:
        yield Correction(versions, "A semantic version has three numbers.")


def _brackets(text: str) -> Iterator[Correction]:
    """Close brackets and quotation marks that are open."""
    plain = _STRING.sub(lambda found: "_" * len(found[0]), text)
    open_brackets: list[str] = []
    for number, character in enumerate(plain):
        if character in _CLOSING:
            open_brackets.append(character)
        elif character in _CLOSING.values():
            if open_brackets and _CLOSING[open_brackets[-1]] == character:
                open_brackets.pop()
            else:
                reason = f"One `{character}` is too many."
                yield Correction(text[:number] + text[number + 1 :], reason)
    if not open_brackets:
        return
    closing = _CLOSING[open_brackets[-1]]
    ends = [match.end() for match in _STRING.finditer(text)]
    numbers = [match.end() for match in re.finditer(r"\w\b", plain)]
    for position in dict.fromkeys([*ends, len(text.rstrip()), *numbers]):
        fixed = text[:position] + closing + text[position:]
        yield Correction(fixed, f"A `{open_brackets[-1]}` is not closed.")


_TEXT_CORRECTIONS: tuple[Callable[[str], Iterable[Correction]], ...] = (
    _quotes,
    _equals_sign,
    _operators,
    _device,
    _functions,
    _brackets,
)


def _quantities(text: str) -> Iterator[Correction]:
    """Compare capacities as quantities."""
    for compared in expressions.comparisons(text):
        if compared.subject.field != CAPACITY:
            continue
        is_quantity = compared.form == QUANTITY and compared.is_method
        constant = str(compared.constant)
        if "memory" in compared.subject.name and constant.isdecimal() and len(constant) < 6:
            # Nobody asks for 40 bytes.
            gibibytes = expressions.replaced(text, compared.span, f'"{constant}Gi"')
            for other in expressions.comparisons(gibibytes):
                new = expressions.converted(gibibytes, other, QUANTITY)
                if other.span.start == compared.span.start and new is not None:
                    yield Correction(new, f"Without a unit, {constant} means bytes.")
        new = None if is_quantity else expressions.converted(text, compared, QUANTITY)
        if new is not None:
            reason = "A capacity is a quantity, which is compared with compareTo()."
            yield Correction(new, reason)


def _by_devices(text: str, report: Report, devices: Devices) -> Iterator[Correction]:
    """Correct names, types and values by what devices publish."""
    for read in report.reads:
        subject = SelectorSubject(read.field, read.domain, read.name)
        for close in read.similar:
            other = SelectorSubject(close.field, close.domain, close.name)
            new = expressions.renamed(text, subject, other)
            yield Correction(new, _rename_reason(subject, other))
    for compared in expressions.comparisons(text):
        published = _published(compared.subject, devices)
        yield from _typed(text, compared, published)
        yield from _valued(text, compared, published)
    for read in report.reads:
        if 0 < read.devices < report.devices:
            subject = SelectorSubject(read.field, read.domain, read.name)
            reason = f"Not every device has {read.name}."
            yield Correction(expressions.guarded(text, subject), reason)


def _rename_reason(subject: SelectorSubject, other: SelectorSubject) -> str:
    if subject.field != other.field:
        now = "a capacity" if other.field == CAPACITY else "an attribute"
        return f"{other.name} is {now}."
    if subject.domain != other.domain:
        return f"The domain of {other.name} is {other.domain}, not {subject.domain}."
    return f"The devices have {other.name}, not {subject.name}."


def _published(subject: SelectorSubject, devices: Devices) -> dict[str, set[str]]:
    """Return the values that devices publish, by type: string, int, bool or version."""
    values: dict[str, set[str]] = {}
    for pool, device in devices:
        attribute = device.attributes.get(f"{subject.domain}/{subject.name}")
        if attribute is None and subject.domain == pool.driver:
            attribute = device.attributes.get(subject.name)
        for kind in ("string", "int", "bool", "version") if attribute is not None else ():
            value = getattr(attribute, f"{kind}_value")
            if value is not None:
                values.setdefault(kind, set()).add(str(value))
    return values


def _typed(
    text: str, compared: expressions.Comparison, published: dict[str, set[str]]
) -> Iterator[Correction]:
    if compared.subject.field != ATTRIBUTES or len(published) != 1:
        return
    (kind,) = published
    wanted = SEMVER if kind == "version" else kind
    given = compared.form or type(compared.constant).__name__.replace("str", "string")
    if wanted == given:
        return
    new = expressions.converted(text, compared, wanted)
    if new is not None and new != text:
        article = "an integer" if kind == "int" else f"a {kind}"
        yield Correction(new, f"{compared.subject.name} is {article}.")


def _valued(
    text: str, compared: expressions.Comparison, published: dict[str, set[str]]
) -> Iterator[Correction]:
    """Replace a text by published ones that are spelt differently or contain it."""
    if compared.relation not in ("==", "in") or not isinstance(compared.constant, str):
        return
    values = sorted(published.get("string", ()))
    word = compared.constant.lower()
    close = [
        *spelling.same_but_spelling(compared.constant, values),
        *(value for value in values if word in value.lower() or value.lower() in word),
        *spelling.similar(compared.constant, values),
    ]
    for value in dict.fromkeys(close):
        new = expressions.replaced(text, compared.span, expressions.written(value))
        yield Correction(new, f"{compared.subject.name} is {expressions.written(value)}.")
