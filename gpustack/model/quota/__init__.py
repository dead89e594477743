"""What a namespace may hold, what it holds, and the words of a refusal for it."""
