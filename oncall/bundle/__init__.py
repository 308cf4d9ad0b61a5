"""The folder that holds one incident: raw evidence, what the walk made of it, and enough to replay it."""
