"""The paper's theory of prediction under changing laws, as functions that a test can hold to their word. NumPy only.

    algebra    vec, ⊗ and powers for stacks of matrices
    linear     setup, local defect δ_t, what teacher forcing measures        app. "Setup", "Local prediction error"
    coverage   law basis ψ, M_ψ, L_law, transfer, the bound at an unseen g   app. "How gravity coverage controls test error"
    ballistic  free flight T_g and its powers, affine in g                   same
    limits     what breaks the coverage result                               app. "When the coverage result does not apply"
    recursion  rollout error, readout, rollout gain Γ_h, the central bound   app. "Local errors under repeated composition"
    horizon    D_h, M_h, G_K, profile mismatch                               app. "Why multi-step composition can change …"
    reversal   the stable ranking reversal, in exact fractions               same
    history    companion matrices with actions                               app. "Relating the theory to the history …"
    events     regimes and hinges                                            app. "Regime changes and contact"
    sigreg     SIGReg near identity covariance                               app. "SIGReg and its limits"
    surrogate  the theory's quantities estimated from a model's latents      ours

Arrays may be stacks wherever a shape is written with leading axes "...". The model is linear on purpose; it explains, it
does not claim that an encoder or a GRU is a matrix. A walk through all of it with figures: docs/theory.md.
"""
