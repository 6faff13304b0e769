"""Methods of training, all behind one interface: a step at the party and a step at the coordinator.

Public: plait.Method, plait.Augmented, plait.GaussSeidel, plait.Jacobi, plait.Proximal, plait.Sgd,
plait.Subspace.
"""
