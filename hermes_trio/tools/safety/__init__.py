"""What a command line may do, judged before it runs."""
