"""The built-in controllers of the embedded cluster: ordinary clients of its API that know neither our operator nor each other."""
