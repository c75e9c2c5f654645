"""Privacy declarations of a workflow: why personal data is processed, and what may be kept after an erasure."""

from __future__ import annotations

from pydantic import Field

from lineage_service.spec.fields import ClosedModel, Count, OneOrMore, Several, Text, Texts


class KeepSpec(ClosedModel):
    """The legal ground on which an erasure keeps rows about several persons, and the minimum number of others."""

    ground: Text = Field(description="The legal ground, e.g. Art. 89 GDPR: statistics")
    min_group: Several = Field(description="Rows of fewer persons than this are deleted; 2 or more")


class PrivacySpec(ClosedModel):
    """What access reports (GDPR Art. 15) and the record of processing (Art. 30) state about this workflow."""

    purpose: Text | None = Field(None, description="Why the data is processed")
    legal_basis: Text | None = Field(None, description="On what legal basis")
    recipients: Texts = Field((), description="Who gets the outputs")
    retention_days: Count | None = Field(
        None, description="How long a run's data is kept, counted from its commit; gc --retention removes it then"
    )
    controller: Text | None = Field(None, description="Who is responsible: name and address of the controller")
    contact: Text | None = Field(None, description="Whom to ask, e.g. the data protection officer")
    authority: Text | None = Field(None, description="The supervisory authority to complain to")
    categories: OneOrMore = Field((), description="Categories of personal data, in words, e.g. contact data")
    origin: Text | None = Field(None, description="Where the data comes from, if not from the person")
    transfers: OneOrMore = Field((), description="Transfers to other countries, and their safeguards")
    security: OneOrMore = Field((), description="Technical and organisational measures that protect the data")
