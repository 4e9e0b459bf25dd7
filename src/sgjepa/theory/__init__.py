"""The paper's theory of prediction under changing laws, as functions that tests hold to its statements. NumPy only.

    linear     matrices, the setup, the local defect δ_t, teacher forcing      app. "Setup", "Local prediction error"
    coverage   free flight, law basis ψ, M_ψ, L_law, transfer, and its limits  app. "How gravity coverage controls …"
    recursion  rollout error, readout, rollout gain Γ_h, the central bound     app. "Local errors under repeated composition"
    horizon    D_h, M_h, G_K, profile mismatch, the ranking reversal           app. "Why multi-step composition can change …"
    history    companion matrices with actions                                 app. "Relating the theory to the history …"
    events     regimes and hinges                                              app. "Regime changes and contact"
    sigreg     SIGReg near identity covariance                                 app. "SIGReg and its limits"
    surrogate  the theory's quantities estimated from a model's latents        not in the paper

Arrays may be stacks wherever a shape is written with leading axes "...". The model is linear on purpose; it explains, it
does not claim that an encoder or a GRU is a matrix. docs/theory.md walks through all of it with figures.
"""
