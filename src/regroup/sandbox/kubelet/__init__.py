"""The sandbox's kubelets: simulated nodes that run pods. A pure machine of containers and a thin shell that speaks to the API."""
