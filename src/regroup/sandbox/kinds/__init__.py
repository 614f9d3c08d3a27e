"""The built-in kinds that the sandbox serves: names, schemas, defaults, validation, columns. Pure."""
