"""A cluster in one process: API server, built-in controllers, scheduler, kubelets, faults. Knows neither API of ours."""
