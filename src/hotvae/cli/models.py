"""``hotvae models``: the models that can be trained."""

from hotvae.cli.options import Json
from hotvae.cli.printing import print_json


def models(as_json: Json = False) -> None:
    """List the models that can be trained: what they are, what they take, what they cost."""
    from hotvae.estimators.registry import CLASSIFIERS, find_classifier

    cards = [
        {"name": name, "title": cls.title, "takes": cls.takes, "cost": cls.cost, "citation": cls.citation}
        for name, cls in ((name, find_classifier(name)) for name in CLASSIFIERS)
    ]
    if as_json:
        print_json(cards)
        return
    width = max(len(card["name"]) for card in cards)
    for card in cards:
        print(f"{card['name']:<{width}}  {card['title']}")
        for what in ("takes", "cost", "citation"):
            print(f"{'':<{width}}  {what + ':':<9} {card[what]}")
    print("\nhotvae train my_table.csv --labels 'sp_*' --model NAME --out my_model")
