"""The pure half of the garbage collector: who owns whom, and what is to become of an object whose owners are gone."""
