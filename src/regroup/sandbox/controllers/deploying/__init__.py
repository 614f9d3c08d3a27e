"""The pure half of the ReplicaSet and Deployment controllers: how many pods, which ones go, and how a rollout moves on."""
