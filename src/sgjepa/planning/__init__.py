"""Planning on imagined latents: the cross-entropy method, its costs, and the policy that carries plans out."""
