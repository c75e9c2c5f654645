"""A person's request: what is held about them, erasing and correcting it, and proof of both."""
