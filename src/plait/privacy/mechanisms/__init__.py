"""What a party may release, and what each release costs."""
