"""What is minimised: losses, penalties and feature matrices, and how good scores are.

Public: plait.Loss, plait.Cauchy, plait.Hinge, plait.Huber, plait.Logistic, plait.Pinball, plait.Poisson, plait.Squared,
plait.SquaredHinge, plait.Penalty, plait.Ball, plait.Box, plait.ElasticNet, plait.GroupLasso, plait.L1, plait.L2,
plait.LogPenalty, plait.NoPenalty, plait.NonNegative.
"""
