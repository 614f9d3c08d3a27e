"""The sandbox's API server: one function from requests to answers, without a socket."""
