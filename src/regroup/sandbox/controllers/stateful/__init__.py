"""The pure half of the StatefulSet controller: who a pod is, what a revision is, and what is to be done next."""
