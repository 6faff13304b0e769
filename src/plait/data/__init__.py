"""Reading, checking and preparing tables.

Public: plait.datasets.
"""
