"""Studies on a Ray cluster: `ray_place` is the study's side, `task` a host's, `shipping` sends folders."""
