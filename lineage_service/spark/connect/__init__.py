"""Spark Connect's protocol: protobuf to plain messages and back (protocol), expressions of messages as columns
(columns)."""
