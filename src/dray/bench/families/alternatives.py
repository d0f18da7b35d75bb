"""Families about what a claim asks for: alternatives, several requests, all devices, classes."""

from __future__ import annotations

from dray.bench.families import objects
from dray.bench.families.draw import Draw, Parts
from dray.bench.families.objects import Object

MODELS = ("a10", "a100", "h100", "h200", "b200", "l4", "l40s", "mi300")
_SIZES = (24, 40, 80, 141, 192)


def prioritized_list(draw: Draw) -> Parts:
    """Requests with `firstAvailable`: two to eight alternatives by model, memory and count."""
    wanted = draw.per_claim(
        lambda: objects.claim_spec(
            *[
                objects.first_available(
                    f"{draw.family}-{number}",
                    [_by_model(draw) for _ in range(draw.randint(2, 8))],
                )
                for number in range(draw.choice((1, 1, 1, 2)))
            ]
        )
    )
    return Parts(model_slices(draw), _model_classes(draw), wanted)


def multiple_requests(draw: Draw) -> Parts:
    """Claims with two to six requests of different classes and counts."""
    wanted = draw.per_claim(
        lambda: objects.claim_spec(
            *[
                objects.request(f"{draw.family}-{number}", _general(draw))
                for number in range(draw.choice((2, 2, 3, 4)))
            ]
        )
    )
    return Parts(model_slices(draw, most=24, models=4), _model_classes(draw), wanted)


def all_devices(draw: Draw) -> Parts:
    """Requests for all devices of a model, and beside them for some of another."""

    def wanted() -> Object:
        model, other = draw.sample(MODELS[:4], 2)
        requests = [objects.request(draw.family, objects.asked(_name(draw, model), count=0))]
        if draw.chance(0.4):
            asked = objects.asked(_name(draw, other), count=draw.randint(1, 2))
            requests.append(objects.request(f"{draw.family}-more", asked))
        return objects.claim_spec(*requests)

    return Parts(model_slices(draw, models=4), _model_classes(draw), draw.per_claim(wanted))


def many_classes(draw: Draw) -> Parts:
    """Dozens of classes, with several selectors and with configuration; claims have some too."""
    names = [f"{draw.family}-{number}" for number in range(draw.randint(40, 120))]
    classes = [
        objects.device_class(
            name,
            draw.is_driver,
            *draw.some(_model_selectors(draw), 0, 2),
            config=[objects.opaque(draw.driver, mode=name, threads=draw.randint(1, 64))]
            if draw.chance(0.5)
            else (),
        )
        for name in names
    ]

    def wanted() -> Object:
        count = draw.choice((1, 1, 2))
        request = objects.request(draw.family, objects.asked(draw.choice(names), count=count))
        if draw.chance(0.5):
            return objects.claim_spec(request)
        config = {"requests": [draw.family], **objects.opaque(draw.driver, debug=True)}
        return objects.claim_spec(request, config=[config])

    return Parts(model_slices(draw), classes, draw.per_claim(wanted))


def model_slices(draw: Draw, *, models: int = len(MODELS), most: int = 10) -> list[Object]:
    """Return slices of devices of several models with memory of several sizes."""

    def contents() -> list[Object]:
        of_node = draw.some(MODELS[:models], 1, 3)
        devices = [
            objects.device(
                f"device-{number}",
                objects.attributes(
                    model=draw.choice(of_node), index=number, healthy=draw.chance(0.9)
                ),
                capacity={"memory": {"value": f"{draw.choice(_SIZES)}Gi"}},
            )
            for number in range(draw.randint(most // 2, most))
        ]
        return [{"devices": devices}]

    return draw.pools(contents)


def _model_classes(draw: Draw) -> list[Object]:
    of_models = [
        objects.device_class(
            _name(draw, model), draw.is_driver, f'{draw.own("model")} == "{model}"'
        )
        for model in MODELS
    ]
    return [objects.device_class(draw.family, draw.is_driver), *of_models]


def _by_model(draw: Draw) -> Object:
    count = draw.choice((1, 1, 1, 1, 2, 3))
    if draw.chance(0.6):
        name = _name(draw, draw.choice(MODELS))
        return objects.asked(name, *draw.some(_model_selectors(draw)[1:], 0, 1), count=count)
    return objects.asked(draw.family, *draw.some(_model_selectors(draw), 0, 2), count=count)


def _general(draw: Draw) -> Object:
    """Return what most nodes have: one or two devices of any model, or one that is common."""
    if draw.chance(0.5):
        return objects.asked(_name(draw, draw.choice(MODELS[:4])))
    selectors = draw.some(_model_selectors(draw)[1:], 0, 1)
    return objects.asked(draw.family, *selectors, count=draw.choice((1, 1, 2)))


def _model_selectors(draw: Draw) -> list[str]:
    size = draw.choice(_SIZES)
    return [
        f'{draw.own("model")} == "{draw.choice(MODELS)}"',
        f'{draw.capacity("memory")}.compareTo(quantity("{size}Gi")) >= 0',
        f"{draw.own('healthy')} && {draw.own('index')} < {draw.randint(2, 8)}",
    ]


def _name(draw: Draw, model: str) -> str:
    return f"{draw.family}-{model}"
