"""A tmpfs for the files of each share: the program that mounts it, and who asks for it."""
