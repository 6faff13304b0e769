"""Protection: a party learns D_m^T g and never g; the coordinator learns sums and never a share.  Experimental.

    parameters     the fixed sizes of the lattice scheme, by name
    randomness     secret and public streams of AES-256-CTR: uniform, ternary and binomial numbers
    ring           exact products in Z_q[X] / (X^n + 1), q a power of two, by floating-point FFTs of limbs
    fixed_point    whole numbers for columns and gradients, and the error of this rounding
    inner_product  the two sides of the encrypted gradient
    messages       the bytes of its three messages, parsed strictly
    secure_sums    pairwise masks in Z_2^64
    score_masks    masked parts of the scores of new rows
    leverage       what D^T g tells about one label, and the limits that follow
    blind          the arithmetic of a third machine that sees only shuffled, sign-flipped numbers

Nobody outside this project has reviewed the cryptography.  docs/protection.md says what it claims and what it does not.

Public: plait.Protection, for `plait.fit(protection=...)` and the estimators.
"""
