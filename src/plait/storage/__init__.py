"""What a run keeps on disk: files that survive a crash, states, journals, the audit log."""
