"""Worlds of conventional benchmarks: no law varies, there is a goal to reach. Their models come with an extra."""
