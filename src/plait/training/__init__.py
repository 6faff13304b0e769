"""One run, from a call to the weights: who takes part, the loop, when it ends, what it reports.

Public: plait.fit, plait.Fit, plait.ConvergenceWarning, plait.History, plait.Round, plait.Stopping,
plait.tracking.
"""
