"""What happens in a round, wherever the parties are: exchanges, local work, uploads, evaluation."""
