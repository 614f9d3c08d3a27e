"""``regroup demo``: the seed's failure stories, played on a cluster and checked."""
