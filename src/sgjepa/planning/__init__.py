"""Planning on imagined latents: the cross-entropy method, planning costs, and the receding-horizon policy."""
