"""What was released and what it cost: nothing leaves a private party without an entry here."""
