"""The scenes of the demo. Their commands are run exactly as they are shown."""

from __future__ import annotations

from dataclasses import dataclass

from lineage_cli.demo.data import PERSON


@dataclass(frozen=True)
class Scene:
    """A sentence, and the command that is run after it."""

    words: str
    command: str


FLIGHTS = (
    Scene(
        "Every flight out of New York in 2013, summed up by airline and month. Lineage is captured on the way.",
        "run flights.yml",
    ),
    Scene(
        "A number that looks wrong: in January, Hawaiian Airlines left 54 minutes late on average.",
        "rows monthly --where \"airline LIKE 'Hawaiian%'\" --order-by month --limit 4",
    ),
    Scene(
        "The records behind it, the latest first. One flight left 1301 minutes late: more than 21 hours.",
        "backward monthly --where \"airline LIKE 'Hawaiian%' AND month = 1\" --to flights "
        '--columns month,day,flight,origin,dest,dep_delay --order-by "dep_delay desc" --limit 3',
    ),
    Scene(
        "What else did that one flight go into? All of it, with the file and the row it came from.",
        "trace flights --where \"carrier = 'HA' AND dep_delay = 1301\"",
    ),
)

SHOP = (
    Scene("Now a shop: what each customer spent, and their rank in their city.", "run shop.yml"),
    Scene("A second workflow reads what the first one wrote, and picks who gets a letter.", "run letters.yml"),
    Scene(
        f"Follow one person, customer {PERSON}: what depends on their orders? The whole ranking of their city does.",
        f"forward orders --key customer_id={PERSON}",
    ),
    Scene(
        "And backward: why does this person get a letter? Through both workflows, down to the lines of the files.",
        f"trace recipients --key customer_id={PERSON} --rows 2",
    ),
    Scene(
        "The same person asks what is held about them. The answer is logged before it is given.",
        f"audit access --subject customer={PERSON}",
    ),
    Scene(
        "Some customers are in an output because something is missing: they have no order.",
        "trace silent --rid 0",
    ),
)
